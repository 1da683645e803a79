#include "trials/simulator/memory.h"

#include <array>

#include <gtest/gtest.h>

namespace trials::memory_test {

// A 7.5B model with so many activations that backward is the peak.
StageMemory Stage() {
  StageMemory stage;
  stage.dp = 64;
  stage.parameters = 7.5e9;
  stage.largest_tensor = 1e6;
  stage.largest_module = 1e7;
  stage.gathered_bytes = 8e7;
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

// The peak with bf16 or, with four bytes an element, in single precision.
MemoryBreakdown Peak(const ParallelConfig& config, const StageMemory& stage,
                     const Framework& framework = {},
                     double element_bytes = 2.0) {
  return RankMemory{config, stage, element_bytes, framework}.Peak();
}

double StateGigabytes(int zero_stage) {
  const MemoryBreakdown memory = Peak(Zero(zero_stage), Stage());
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

TEST(Memory, ASmallerOptimizerStateNeedsNoCopiesOfGradients) {
  Framework framework;
  StageMemory stage = Stage();
  stage.activations_bytes = 0.0;  // the optimizer's step is the peak
  EXPECT_DOUBLE_EQ(Peak(Zero(0), stage, framework).gradients_bytes,
                   4.0 * stage.parameters);
  framework.optimizer.optimizer_state_bytes = 8.0;
  const MemoryBreakdown memory = Peak(Zero(0), stage, framework);
  EXPECT_DOUBLE_EQ(memory.optimizer_bytes, 8.0 * stage.parameters);
  EXPECT_DOUBLE_EQ(memory.gradients_bytes, 2.0 * stage.parameters);
}

TEST(Memory, SumsInFp32MakeEighteenBytesPerParameter) {
  // Megatron-LM with bf16: 18 bytes a parameter, 6 + 12 / dp with the
  // distributed optimizer (its documentation).
  Framework framework;
  framework.gradients.fp32_gradients = true;
  const auto bytes = [&](int zero) {
    const MemoryBreakdown memory = Peak(Zero(zero), Stage(), framework);
    return (memory.parameters_bytes + memory.gradients_bytes +
            memory.optimizer_bytes) /
           Stage().parameters;
  };
  EXPECT_DOUBLE_EQ(bytes(0), 18.0);
  EXPECT_DOUBLE_EQ(bytes(1), 6.0 + 12.0 / 64);
}

TEST(Memory, CopiesOfParametersIn8BitsCountAsParameters) {
  Framework framework;
  framework.optimizer.parameter_bytes = 4.0;
  const MemoryBreakdown memory = Peak(Zero(1), Stage(), framework);
  EXPECT_DOUBLE_EQ(memory.parameters_bytes, 4.0 * Stage().parameters);
  EXPECT_DOUBLE_EQ(memory.gradients_bytes, 2.0 * Stage().parameters);
}

TEST(Memory, CommunicatorsHaveBuffersForEachOfTheirChannels) {
  // NVIDIA/nccl#964: 688 MiB for a communicator on four A100 with NVLink.
  Framework framework;
  StageMemory stage = Stage();
  stage.channels = 24.0;
  const auto bytes = [&] {
    return Peak(Zero(0), stage, framework).context_bytes -
           framework.allocator.context_bytes;
  };
  EXPECT_NEAR(bytes(), 688.0 * 1024 * 1024, 5e6);
  framework.allocator.nccl_group_bytes = 1e9;  // of all ranks, of dp
  EXPECT_DOUBLE_EQ(bytes(), 2e9);
}

TEST(Memory, MessagesWaitForTheGpuUnlessAPipelineStopsTheCpu) {
  Framework framework;
  framework.allocator.pending_messages = 3;
  framework.allocator.pending_messages_unpiped = 40;
  StageMemory stage = Stage();
  stage.collective_bytes = 1e9;
  const auto pending = [&](int pp, int microbatches) {
    ParallelConfig config = Zero(0);
    config.pp = pp;
    config.microbatches = microbatches;
    return Peak(config, stage, framework).pending_bytes;
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
  framework.sharding.fsdp = framework.gradients.fp32_gradients = true;
  const MemoryBreakdown memory = Peak(Zero(3), Stage(), framework);
  EXPECT_DOUBLE_EQ(
      memory.parameters_bytes + memory.gradients_bytes + memory.optimizer_bytes,
      16.0 * Stage().parameters / 64);
  EXPECT_DOUBLE_EQ(memory.buffers_bytes, Stage().gathered_bytes);
}

TEST(Memory, Bf16SumsAreInFp32AndFp16GradientsAreNot) {
  Framework framework;
  framework.gradients.bf16_sums = true;
  const auto gradients = [&](Precision precision) {
    return Peak(Zero(1), Stage(),
                ForWorkload(framework, {.precision = precision}, {}))
               .gradients_bytes /
           Stage().parameters;
  };
  EXPECT_DOUBLE_EQ(gradients(Precision::kBf16), 4.0 + 2.0);
  EXPECT_DOUBLE_EQ(gradients(Precision::kFp16), 2.0);
}

TEST(Memory, ExpertsAreShardedOverTheRanksThatHoldThem) {
  StageMemory stage = Stage();
  stage.parameters = 0.0;
  stage.expert_parameters = 1e9;
  ParallelConfig config = Zero(1);
  config.ep = 8;
  stage.expert_ranks = 64 / 8;
  EXPECT_DOUBLE_EQ(Peak(config, stage).optimizer_bytes, 12e9 / (64 / 8));
}

TEST(Memory, SinglePrecisionNeedsNoMasterCopy) {
  const MemoryBreakdown memory = Peak(Zero(0), Stage(), {}, 4.0);
  EXPECT_DOUBLE_EQ(memory.parameters_bytes, 4 * 7.5e9);
  EXPECT_DOUBLE_EQ(memory.optimizer_bytes, 8 * 7.5e9);
}

TEST(Memory, WithoutActivationsTheOptimizersStepIsThePeak) {
  StageMemory stage = Stage();
  stage.activations_bytes = 0.0;
  // Half-precision gradients are freed as their fp32 copies are made.
  EXPECT_DOUBLE_EQ(Peak(Zero(0), stage).gradients_bytes, 4 * 7.5e9);
  EXPECT_DOUBLE_EQ(Peak(Zero(1), stage).gradients_bytes,
                   (2 + 4.0 / 64) * 7.5e9);
}

TEST(Memory, LargeBucketsAndOverlapNeedBuffers) {
  ParallelConfig config = Zero(1);
  const auto buffers = [&] { return Peak(config, Stage()).buffers_bytes; };
  config.overlap_zero_comm = false;
  const double small = buffers();
  config.zero_bucket_mb = 1024;
  EXPECT_NEAR(buffers(), 1024.0 * 1024 * 1024, 1.0);
  EXPECT_GT(buffers(), small);
  config.overlap_zero_comm = true;
  EXPECT_NEAR(buffers(), 2 * 1024.0 * 1024 * 1024, 1.0);
}

TEST(Memory, AnOffloadedOptimizerLeavesHalfPrecisionParametersOnly) {
  StageMemory stage = Stage();
  stage.training.offload = {true, false};
  for (const int zero : {0, 1, 2}) {
    const MemoryBreakdown memory = Peak(Zero(zero), stage);
    EXPECT_DOUBLE_EQ(memory.parameters_bytes, 2.0 * stage.parameters);
    EXPECT_EQ(memory.optimizer_bytes, 0.0);
    EXPECT_EQ(memory.gradients_bytes, 0.0);
  }
}

TEST(Memory, TheHostHoldsWhatTheGpuDoesNot) {
  const auto host = [](std::array<bool, 2> offload, int zero) {
    StageMemory stage = Stage();
    stage.training.offload = offload;
    return RankMemory{Zero(zero), stage, 2.0, {}}.HostBytes() /
           stage.parameters;
  };
  EXPECT_EQ(host({false, false}, 1), 0.0);
  EXPECT_DOUBLE_EQ(host({true, false}, 0), 12.0 + 4.0);
  EXPECT_DOUBLE_EQ(host({true, false}, 1), (12.0 + 4.0) / 64);
  EXPECT_DOUBLE_EQ(host({true, true}, 3), (12.0 + 4.0 + 2.0) / 64);
}

TEST(Memory, OffloadedParametersLeaveTheModulesThatAreInUse) {
  StageMemory stage = Stage();
  stage.training.offload = {true, true};
  const MemoryBreakdown memory = Peak(Zero(3), stage);
  EXPECT_EQ(memory.parameters_bytes, 0.0);
  EXPECT_GE(memory.buffers_bytes, stage.gathered_bytes);
  stage.dp = 1;  // without other ranks, too
  EXPECT_EQ(Peak(Zero(0), stage).parameters_bytes, 0.0);
  EXPECT_GE(Peak(Zero(0), stage).buffers_bytes, stage.gathered_bytes);
}

TEST(Memory, PagedMomentsLeaveAFullGpu) {
  StageMemory stage = Stage();
  const MemoryBreakdown usual = Peak(Zero(1), stage);
  stage.training.paged = true;
  const MemoryBreakdown paged = Peak(Zero(1), stage);
  EXPECT_DOUBLE_EQ(paged.Total(), usual.Total());
  EXPECT_DOUBLE_EQ(WhenFull(paged, 1.0).Total(),
                   usual.Total() - 8.0 * stage.parameters / 64);
}

}  // namespace trials::memory_test
