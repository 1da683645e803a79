#include "trials/simulator/memory.h"

#include <gtest/gtest.h>

namespace trials::memory_test {

// A 7.5B model with so many activations that backward is the peak.
StageMemory Stage() {
  StageMemory stage;
  stage.dp = 64;
  stage.parameters = 7.5e9;
  stage.largest_tensor = 1e6;
  stage.largest_module = 1e7;
  stage.activations_bytes = 1e12;
  return stage;
}

ParallelConfig Zero(int stage) {
  ParallelConfig config;
  config.zero_stage = stage;
  config.microbatches = 2;
  config.zero_bucket_mb = 1;
  return config;
}

double StateGigabytes(int zero_stage) {
  const MemoryBreakdown memory =
      ComputeMemory(Zero(zero_stage), Stage(), 2.0, {});
  return (memory.parameters_bytes + memory.gradients_bytes +
          memory.optimizer_bytes) /
         1e9;
}

TEST(Memory, StatesAreThoseOfRajbhandarisFigure1) {
  // Rajbhandari et al. (2020), Fig. 1: 7.5B parameters on 64 GPUs.
  EXPECT_NEAR(StateGigabytes(0), 120.0, 0.1);
  EXPECT_NEAR(StateGigabytes(1), 31.4, 0.1);
  EXPECT_NEAR(StateGigabytes(2), 16.6, 0.1);
  EXPECT_NEAR(StateGigabytes(3), 1.9, 0.1);
}

TEST(Memory, SumsInFp32MakeEighteenBytesPerParameter) {
  // Megatron-LM with bf16: 18 bytes a parameter, 6 + 12 / dp with the
  // distributed optimizer (its documentation).
  Framework framework;
  framework.fp32_gradients = true;
  const auto bytes = [&](int zero) {
    const MemoryBreakdown memory =
        ComputeMemory(Zero(zero), Stage(), 2.0, framework);
    return (memory.parameters_bytes + memory.gradients_bytes +
            memory.optimizer_bytes) /
           Stage().parameters;
  };
  EXPECT_DOUBLE_EQ(bytes(0), 18.0);
  EXPECT_DOUBLE_EQ(bytes(1), 6.0 + 12.0 / 64);
}

TEST(Memory, GradientsApartFromTheirSumsTakeTwoBytesMore) {
  // nanotron's FP32GradientAccumulator: 4 bytes of sums, 2 of a microbatch's.
  Framework framework;
  framework.fp32_gradients = framework.gradients_apart = true;
  StageMemory stage = Stage();
  for (const int zero : {0, 1}) {
    for (const double experts : {0.0, 1e9}) {
      stage.expert_parameters = experts;
      EXPECT_DOUBLE_EQ(
          ComputeMemory(Zero(zero), stage, 2.0, framework).gradients_bytes,
          6.0 * (stage.parameters + experts));
    }
  }
}

// One rank holds whole tensors if others receive them by broadcasts.
TEST(Memory, ABroadcastTensorIsNotSharded) {
  Framework framework;
  StageMemory stage = Stage();
  EXPECT_DOUBLE_EQ(OptimizerShare(Zero(1), stage, framework), 1.0 / 64);
  ParallelConfig contexts = Zero(1);
  contexts.cp = 2;  // their ranks hold the same parameters
  EXPECT_DOUBLE_EQ(OptimizerShare(contexts, stage, framework), 1.0 / 128);
  framework.broadcast_parameters = true;
  stage.largest_tensor = 0.1 * stage.parameters;
  EXPECT_DOUBLE_EQ(OptimizerShare(Zero(1), stage, framework), 0.1);
  // Gradients are reduced to shards all the same.
  const MemoryBreakdown memory = ComputeMemory(Zero(2), stage, 2.0, framework);
  EXPECT_DOUBLE_EQ(memory.optimizer_bytes, 0.1 * 12.0 * stage.parameters);
  EXPECT_DOUBLE_EQ(memory.gradients_bytes,
                   framework.GradientBytes(2.0) * stage.parameters / 64);
  stage.largest_tensor = 1e-3 * stage.parameters;
  EXPECT_DOUBLE_EQ(OptimizerShare(Zero(1), stage, framework), 1.0 / 64);
}

// A group for all ranks, one for each kind of parallelism, two for pipelines
// and for experts.
TEST(Memory, EveryGroupOfRanksHasBuffers) {
  Framework framework;
  framework.context_bytes = 1e9;
  framework.nccl_group_bytes = 1e6;
  struct Row {
    int dp, tp, pp, cp, ep, groups;
  };
  for (const Row& row :
       {Row{1, 1, 1, 1, 1, 1}, Row{2, 1, 1, 1, 1, 2}, Row{1, 2, 1, 1, 1, 2},
        Row{1, 1, 2, 1, 1, 3}, Row{1, 1, 1, 2, 1, 2}, Row{2, 1, 1, 1, 2, 4},
        Row{2, 2, 2, 2, 2, 8}}) {
    ParallelConfig config = Zero(0);
    config.pp = row.pp;
    config.cp = row.cp;
    config.ep = row.ep;
    StageMemory stage = Stage();
    stage.dp = row.dp;
    stage.tp = row.tp;
    EXPECT_DOUBLE_EQ(ComputeMemory(config, stage, 2.0, framework).context_bytes,
                     1e9 + row.groups * 1e6)
        << row.groups;
  }
}

TEST(Memory, SumsInFp32NeitherFragmentNorNeedBuckets) {
  Framework framework;
  framework.fp32_gradients = true;
  const MemoryBreakdown memory =
      ComputeMemory(Zero(1), Stage(), 2.0, framework);
  EXPECT_DOUBLE_EQ(memory.allocator_bytes,
                   framework.fragmentation * memory.activations_bytes);
  EXPECT_EQ(memory.buffers_bytes, 0.0);
}

TEST(Memory, MessagesWaitForTheGpuUnlessAPipelineStopsTheCpu) {
  Framework framework;
  framework.pending_messages = 3;
  framework.pending_messages_unpiped = 40;
  StageMemory stage = Stage();
  stage.collective_bytes = 1e9;
  const auto pending = [&](int pp, int microbatches) {
    ParallelConfig config = Zero(0);
    config.pp = pp;
    config.microbatches = microbatches;
    return ComputeMemory(config, stage, 2.0, framework).pending_bytes;
  };
  EXPECT_DOUBLE_EQ(pending(1, 8), 40e9);
  EXPECT_DOUBLE_EQ(pending(1, 2), 40e9);
  EXPECT_DOUBLE_EQ(pending(1, 1), 20e9);
  EXPECT_DOUBLE_EQ(pending(4, 8), 3e9);
  stage.collective_bytes = 0.0;  // no tensor parallelism
  EXPECT_EQ(pending(1, 8), 0.0);
}

TEST(Memory, AFullGpuGetsBackWhatWasPending) {
  MemoryBreakdown memory;
  memory.parameters_bytes = 60e9;
  memory.pending_bytes = 30e9;
  EXPECT_DOUBLE_EQ(WhenFull(memory, 100e9).Total(), 90e9);
  EXPECT_DOUBLE_EQ(WhenFull(memory, 90e9).Total(), 90e9);
  EXPECT_DOUBLE_EQ(WhenFull(memory, 80e9).Total(), 60e9);
}

TEST(Memory, FsdpKeepsMastersAndGathersModules) {
  // 16 bytes a parameter over all ranks (fp32 weight, gradient and moments),
  // and two gathered modules with a gradient of one.
  Framework framework;
  framework.fsdp = framework.fp32_gradients = true;
  const MemoryBreakdown memory =
      ComputeMemory(Zero(3), Stage(), 2.0, framework);
  EXPECT_DOUBLE_EQ(
      memory.parameters_bytes + memory.gradients_bytes + memory.optimizer_bytes,
      16.0 * Stage().parameters / 64);
  EXPECT_DOUBLE_EQ(memory.buffers_bytes, (2 * 2 + 4) * Stage().largest_module);
}

TEST(Memory, FsdpKeepsGradientsLikeMasters) {
  // Reduced gradients have the precision of the sharded parameters, so the step
  // needs no copies: 16 bytes a parameter at both peaks.
  Framework framework;
  framework.fsdp = true;
  StageMemory stage = Stage();
  for (const double activations : {0.0, 1e12}) {
    stage.activations_bytes = activations;
    const MemoryBreakdown memory =
        ComputeMemory(Zero(3), stage, 2.0, framework);
    EXPECT_DOUBLE_EQ(memory.parameters_bytes + memory.gradients_bytes +
                         memory.optimizer_bytes,
                     16.0 * Stage().parameters / 64);
  }
}

TEST(Memory, FsdpWithoutSyncKeepsWholeGradientsOfExpertsToo) {
  Framework framework;
  framework.fsdp = framework.no_sync = true;
  StageMemory stage = Stage();
  stage.expert_parameters = 1e9;
  EXPECT_DOUBLE_EQ(
      ComputeMemory(Zero(3), stage, 2.0, framework).gradients_bytes,
      framework.GradientBytes(2.0) * (stage.parameters + 1e9));
}

TEST(Memory, FlatGradientsStayBesideTheActivationsUntilMemoryIsFull) {
  Framework framework;
  framework.flat_gradients = true;
  const auto bytes = [&](int zero) {
    return ComputeMemory(Zero(zero), Stage(), 2.0, framework).pending_bytes /
           Stage().parameters;
  };
  EXPECT_DOUBLE_EQ(bytes(0), 6.0);
  EXPECT_DOUBLE_EQ(bytes(1), 6.0 / 64);
  // The step itself needs them: 2 + 2 + 12 + 6 bytes a parameter.
  StageMemory stage = Stage();
  stage.activations_bytes = 0.0;
  const MemoryBreakdown step = ComputeMemory(Zero(0), stage, 2.0, framework);
  EXPECT_DOUBLE_EQ(step.gradients_bytes, 8.0 * stage.parameters);
  EXPECT_EQ(step.pending_bytes, 0.0);
}

TEST(Memory, Bf16SumsAreInFp32AndFp16GradientsAreNot) {
  Framework framework;
  framework.bf16_sums = true;
  const auto gradients = [&](Precision precision) {
    return ComputeMemory(Zero(1), Stage(), 2.0,
                         ForPrecision(framework, precision))
               .gradients_bytes /
           Stage().parameters;
  };
  EXPECT_DOUBLE_EQ(gradients(Precision::kBf16), 4.0 + 2.0);
  EXPECT_DOUBLE_EQ(gradients(Precision::kFp16), 2.0);
}

TEST(Memory, BuffersOfAFixedSizeAreNoLargerThanTheModel) {
  Framework framework;
  framework.reduce_buffer_elements = 5e8;
  framework.gather_buffer_elements = 5e8;
  StageMemory stage = Stage();
  EXPECT_DOUBLE_EQ(ComputeMemory(Zero(1), stage, 2.0, framework).buffers_bytes,
                   2 * 2 * 5e8);
  stage.parameters = 1e8;
  EXPECT_DOUBLE_EQ(ComputeMemory(Zero(1), stage, 2.0, framework).buffers_bytes,
                   2 * 2 * 1e8);
}

TEST(Memory, ExpertsAreShardedOverTheRanksThatHoldThem) {
  StageMemory stage = Stage();
  stage.parameters = 0.0;
  stage.expert_parameters = 1e9;
  ParallelConfig config = Zero(1);
  config.ep = 8;
  EXPECT_DOUBLE_EQ(ComputeMemory(config, stage, 2.0, {}).optimizer_bytes,
                   12e9 / (64 / 8));
}

TEST(Memory, SinglePrecisionNeedsNoMasterCopy) {
  const MemoryBreakdown memory = ComputeMemory(Zero(0), Stage(), 4.0, {});
  EXPECT_DOUBLE_EQ(memory.parameters_bytes, 4 * 7.5e9);
  EXPECT_DOUBLE_EQ(memory.optimizer_bytes, 8 * 7.5e9);
}

TEST(Memory, WithoutActivationsTheOptimizersStepIsThePeak) {
  StageMemory stage = Stage();
  stage.activations_bytes = 0.0;
  // Half-precision gradients are freed as their fp32 copies are made.
  EXPECT_DOUBLE_EQ(ComputeMemory(Zero(0), stage, 2.0, {}).gradients_bytes,
                   4 * 7.5e9);
  EXPECT_DOUBLE_EQ(ComputeMemory(Zero(1), stage, 2.0, {}).gradients_bytes,
                   (2 + 4.0 / 64) * 7.5e9);
}

TEST(Memory, OneMicrobatchHoldsNoGradientsAtTheLoss) {
  ParallelConfig config = Zero(0);
  config.microbatches = 1;
  EXPECT_EQ(ComputeMemory(config, Stage(), 2.0, {}).gradients_bytes, 0.0);
}

TEST(Memory, LargeBucketsAndOverlapNeedBuffers) {
  ParallelConfig config = Zero(1);
  const auto buffers = [&] {
    return ComputeMemory(config, Stage(), 2.0, {}).buffers_bytes;
  };
  config.overlap_zero_comm = false;
  const double small = buffers();
  config.zero_bucket_mb = 1024;
  EXPECT_NEAR(buffers(), 1024.0 * 1024 * 1024, 1.0);
  EXPECT_GT(buffers(), small);
  config.overlap_zero_comm = true;
  EXPECT_NEAR(buffers(), 2 * 1024.0 * 1024 * 1024, 1.0);
}

TEST(Memory, StatesAfterSetUpAreLessThanThePeak) {
  for (const int zero : {0, 1, 2, 3}) {
    EXPECT_LT(StateBytes(Zero(zero), Stage(), 2.0, {}),
              ComputeMemory(Zero(zero), Stage(), 2.0, {}).Total());
  }
}

TEST(Memory, AnOffloadedOptimizerLeavesHalfPrecisionParametersOnly) {
  Framework framework;
  framework.offload_optimizer = true;
  for (const int zero : {1, 2}) {
    const MemoryBreakdown memory =
        ComputeMemory(Zero(zero), Stage(), 2.0, framework);
    EXPECT_DOUBLE_EQ(memory.parameters_bytes, 2.0 * Stage().parameters);
    EXPECT_EQ(memory.optimizer_bytes, 0.0);
    EXPECT_EQ(memory.gradients_bytes, 0.0);
  }
  EXPECT_EQ(ComputeMemory(Zero(0), Stage(), 2.0, framework),
            ComputeMemory(Zero(0), Stage(), 2.0, {}));  // needs ZeRO
}

// Two modules of half-precision parameters; a bucket is at least a tensor, and
// there are two where communication overlaps.
TEST(Memory, ZeroThreeGathersTwoModulesAndFillsBuckets) {
  const double bucket = 2 * Stage().largest_tensor;
  EXPECT_EQ(ComputeMemory(Zero(3), Stage(), 2.0, {}).buffers_bytes,
            2 * bucket + 2 * 2 * Stage().largest_module);
  EXPECT_EQ(ComputeMemory(Zero(2), Stage(), 2.0, {}).buffers_bytes, 2 * bucket);
  Framework framework;  // of fixed sizes: those of stages 1 and 2
  framework.reduce_buffer_elements = framework.gather_buffer_elements = 5e8;
  EXPECT_EQ(ComputeMemory(Zero(3), Stage(), 2.0, framework).buffers_bytes,
            2 * bucket + 2 * 2 * Stage().largest_module);
  // One rank of data parallelism has none.
  StageMemory alone = Stage();
  alone.dp = 1;
  EXPECT_EQ(ComputeMemory(Zero(2), alone, 2.0, {}).buffers_bytes, 0.0);
}

// DDP copies all gradients; a pipeline reduces them in place, and has a message
// to send and one to receive.
TEST(Memory, WithoutZeroBucketsHoldAllGradientsOrNone) {
  StageMemory stage = Stage();
  stage.boundary_bytes = 3e6;
  stage.placeholder_bytes = 5e6;
  stage.expert_parameters = 1e9;
  ParallelConfig config = Zero(0);
  EXPECT_EQ(ComputeMemory(config, stage, 2.0, {}).buffers_bytes,
            2 * 8.5e9 + 5e6);
  config.pp = 2;
  EXPECT_EQ(ComputeMemory(config, stage, 2.0, {}).buffers_bytes, 6e6 + 5e6);
}

// The loss is over when the temporaries of a block are needed, and the
// allocator holds a fraction of all that comes and goes.
TEST(Memory, BackwardHoldsTheLargerOfLogitsAndTemporaries) {
  Framework framework;
  framework.workspace_bytes = 1e6;
  framework.fragmentation = 0.5;
  StageMemory stage = Stage();
  stage.dp = 1;
  stage.logits_bytes = 3e9;
  const auto memory = [&](double working_bytes) {
    stage.working_bytes = working_bytes;
    return ComputeMemory(Zero(0), stage, 2.0, framework);
  };
  EXPECT_EQ(memory(1e9).working_bytes, 1e6);
  EXPECT_EQ(memory(5e9).working_bytes, 1e6 + 2e9);
  EXPECT_EQ(memory(5e9).logits_bytes, 3e9);
  EXPECT_EQ(memory(5e9).allocator_bytes,
            0.5 * (1e12 + 3e9 + 2e9 + 1e6 + 2 * 7.5e9));
}

// Sums in fp32 and several microbatches hold gradients while a loss is
// computed.
TEST(Memory, GradientsOfEarlierMicrobatchesAreThereAtTheLoss) {
  ParallelConfig config = Zero(0);
  EXPECT_EQ(ComputeMemory(config, Stage(), 2.0, {}).gradients_bytes, 15e9);
  config.microbatches = 1;
  Framework framework;
  framework.fp32_gradients = true;
  EXPECT_EQ(ComputeMemory(config, Stage(), 2.0, framework).gradients_bytes,
            30e9);
  // FSDP without no_sync scatters them; with it they are whole until the last
  // microbatch.
  framework = {};
  framework.fsdp = framework.no_sync = true;
  EXPECT_EQ(ComputeMemory(Zero(2), Stage(), 2.0, framework).gradients_bytes,
            15e9);
  config = Zero(2);
  config.microbatches = 1;
  StageMemory stage = Stage();
  stage.activations_bytes = 0.0;
  EXPECT_EQ(ComputeMemory(config, stage, 2.0, framework).gradients_bytes,
            4 * 7.5e9 / 64);
}

}  // namespace trials::memory_test
