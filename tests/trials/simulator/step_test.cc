#include "trials/simulator/step.h"

#include <vector>

#include <gtest/gtest.h>

#include "tests/trials/simulator/problem.h"
#include "trials/knobs.h"

namespace trials::step_test {

// A stage of eight data-parallel ranks that ends after 10 s.
class StepEnd {
 public:
  Problem problem;
  std::vector<StageCost> stages;
  std::vector<StageSync> syncs;

  StepEnd() {
    problem.workload = SmallWorkload();
    problem.gpu_types = {SmallCluster()};
    problem.gpus.emplace_back(problem.gpu_types[0].gpu, Precision::kBf16, 5e-6);
    problem.framework.dispatch_s = 0.0;
    problem.framework.step_overhead_s = 0.0;
    StageCost stage;
    stage.end_s = 10.0;
    stage.memory.dp = 8;
    stage.memory.parameters = 8e6;
    stage.memory.expert_parameters = 4e6;
    stage.optimizer_s = 8.0;
    stage.expert_optimizer_s = 4.0;
    stages.assign(1, stage);
    syncs.resize(1);
  }

  [[nodiscard]] StepReport Finish(const char* config) const {
    return FinishStep(problem, ParseParallelConfig(config), stages, syncs);
  }
};

// ZeRO shards parameters over all eight ranks, and experts over the four that
// hold the same ones.
TEST(Step, TheOptimizerUpdatesAShardAndTheExpertsOfARank) {
  const StepEnd step;
  EXPECT_DOUBLE_EQ(step.Finish("dp=8,ep=2").time.optimizer_s, 8.0 + 4.0);
  EXPECT_DOUBLE_EQ(step.Finish("dp=8,ep=2,zero_stage=1").time.optimizer_s,
                   8.0 / 8 + 4.0 / 4);
}

// Twelve kernels of a second are issued while the GPU works for two.
TEST(Step, TheOptimizerWaitsForItsKernels) {
  StepEnd step;
  step.problem.framework.dispatch_s = 1.0;
  step.problem.framework.step_kernels = 4.0;
  step.problem.framework.zero_step_kernels = 6.0;
  step.stages[0].tensors = 2;
  EXPECT_DOUBLE_EQ(step.Finish("dp=8,ep=2,zero_stage=1").time.optimizer_s,
                   12.0);
  EXPECT_DOUBLE_EQ(step.Finish("dp=8,ep=2").time.optimizer_s, 12.0);
  step.stages[0].tensors = 4;
  EXPECT_DOUBLE_EQ(step.Finish("dp=8,ep=2").time.optimizer_s, 16.0);
}

// 1e6 and 1e6 elements of a rank: weights back in 2 bytes and, unless they
// overlap with backward, gradients in 2 bytes; four GPUs share the host.
TEST(Step, AnOffloadedOptimizerMovesAndUpdatesTheShardsOfAHost) {
  StepEnd step;
  step.problem.framework.offload_optimizer = true;
  step.problem.framework.host_bytes_per_s = 1e6;
  step.problem.framework.host_optimizer_elements_per_s = 1e6;
  EXPECT_DOUBLE_EQ(step.Finish("dp=8,ep=2,zero_stage=1,overlap_zero_comm=1")
                       .time.optimizer_s,
                   2.0 * 2 + 2.0 * 4);
  EXPECT_DOUBLE_EQ(step.Finish("dp=8,ep=2,zero_stage=1,overlap_zero_comm=0")
                       .time.optimizer_s,
                   2.0 * 4 + 2.0 * 4);
}

TEST(Step, EndsWithTheStageThatEndsLastAndPeaksWhereAGpuIsFullest) {
  StepEnd step;
  step.stages.assign(3, step.stages[0]);
  step.syncs.resize(3);
  step.stages[1].end_s = 30.0;
  step.stages[1].links.first_rank = 5;
  step.stages[2].end_s = 20.0;
  step.stages[2].memory.activations_bytes = 1e9;
  step.stages[2].links.first_rank = 7;
  const StepReport report = step.Finish("dp=8,pp=3");
  EXPECT_DOUBLE_EQ(report.step_time_s, 30.0 + 12.0);
  EXPECT_EQ(report.critical_rank, 5);
  EXPECT_EQ(report.peak_rank, 7);
}

// Both holders wait for the later one, then for the exchange.
TEST(Step, ATiedTableIsExchangedWhenBothOfItsHoldersHaveFinished) {
  StepEnd step;
  step.stages.assign(2, step.stages[0]);
  step.syncs.resize(2);
  step.stages[0].end_s = 4.0;
  step.stages[0].optimizer_s = 20.0;  // the critical stage
  step.stages[0].shared_table_s = step.stages[1].shared_table_s = 3.0;
  const StepReport report = step.Finish("dp=8,pp=2");
  EXPECT_DOUBLE_EQ(report.step_time_s, 10.0 + 3.0 + 24.0);
  EXPECT_DOUBLE_EQ(report.time.bubble_s, 6.0);
  EXPECT_DOUBLE_EQ(report.time.data_s, 3.0);
}

TEST(Step, ZeroStage3GathersNothingAtTheEnd) {
  StepEnd step;
  step.syncs[0].gather.total_s = 5.0;
  step.syncs[0].gather.overhead_s = 1.0;
  const auto data_s = [&](const char* config) {
    return step.Finish(config).time.data_s;
  };
  EXPECT_EQ(data_s("dp=8"), 0.0);
  EXPECT_EQ(data_s("dp=8,zero_stage=1"), 5.0);
  EXPECT_EQ(data_s("dp=8,zero_stage=2,microbatches=4"), 5.0);
  EXPECT_EQ(data_s("dp=8,zero_stage=3"), 0.0);
  EXPECT_EQ(step.Finish("dp=8,zero_stage=2,microbatches=4").time.overhead_s,
            1.0);
  // fully_shard gathers in every microbatch, unless there is a pipeline.
  step.problem.framework.fsdp = true;
  EXPECT_EQ(data_s("dp=8,zero_stage=1,microbatches=4"), 5.0);
  EXPECT_EQ(data_s("dp=8,zero_stage=2,microbatches=4"), 20.0);
  EXPECT_EQ(step.Finish("dp=8,zero_stage=2,microbatches=4").time.overhead_s,
            4.0);
}

TEST(Step, AJobFitsThatFillsItsGpusExactly) {
  StepEnd step;
  const double bytes = step.Finish("dp=8").peak_memory_bytes;
  step.problem.gpu_types[0].gpu.memory_bytes = bytes;
  EXPECT_TRUE(step.Finish("dp=8").fits);
  step.problem.gpu_types[0].gpu.memory_bytes = bytes - 1.0;
  EXPECT_FALSE(step.Finish("dp=8").fits);
}

// Above half of the memory the allocator waits a second in each microbatch.
TEST(Step, AnAllocatorUnderPressureRetriesInEveryMicrobatch) {
  StepEnd step;
  step.problem.framework.allocator_retry_s = 1.0;
  step.problem.framework.allocator_pressure = 0.5;
  const double bytes = step.Finish("dp=8").peak_memory_bytes;
  const auto report = [&](double share) {
    step.problem.gpu_types[0].gpu.memory_bytes = bytes / share;
    return step.Finish("dp=8,microbatches=4");
  };
  EXPECT_FALSE(report(0.49).short_of_memory);
  EXPECT_TRUE(report(0.51).short_of_memory);
  EXPECT_DOUBLE_EQ(report(0.51).step_time_s - report(0.49).step_time_s, 4.0);
  EXPECT_DOUBLE_EQ(report(0.51).time.overhead_s - report(0.49).time.overhead_s,
                   4.0);
}

TEST(Step, OfEqualStagesTheFirstIsNamed) {
  StepEnd step;
  step.stages.assign(2, step.stages[0]);
  step.syncs.resize(2);
  step.stages[0].links.first_rank = 3;
  step.stages[1].links.first_rank = 5;
  const StepReport report = step.Finish("dp=8,pp=2");
  EXPECT_EQ(report.critical_rank, 3);
  EXPECT_EQ(report.peak_rank, 3);
}

}  // namespace trials::step_test
