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
    problem.framework.dispatch.dispatch_s = 0.0;
    problem.framework.dispatch.step_overhead_s = 0.0;
    StageCost stage;
    stage.end_s = 10.0;
    stage.memory.dp = 8;
    stage.memory.parameters = 8e6;
    stage.memory.expert_parameters = 4e6;
    stage.memory.expert_ranks = 4;
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
  step.problem.framework.dispatch.dispatch_s = 1.0;
  step.problem.framework.optimizer.step_kernels = 4.0;
  step.problem.framework.optimizer.zero_step_kernels = 6.0;
  step.stages[0].tensors = 2;
  EXPECT_DOUBLE_EQ(step.Finish("dp=8,ep=2,zero_stage=1").time.optimizer_s,
                   12.0);
  EXPECT_DOUBLE_EQ(step.Finish("dp=8,ep=2").time.optimizer_s, 12.0);
  step.stages[0].tensors = 4;
  EXPECT_DOUBLE_EQ(step.Finish("dp=8,ep=2").time.optimizer_s, 16.0);
}

TEST(Step, EndsWithTheStageThatEndsLastAndPeaksWhereAGpuIsFullest) {
  StepEnd step;
  step.stages.assign(3, step.stages[0]);
  step.syncs.resize(3);
  step.stages[1].end_s = 30.0;
  step.stages[1].links.first_rank = step.stages[1].memory.first_rank = 5;
  step.stages[2].end_s = 20.0;
  step.stages[2].memory.activations_bytes = 1e9;
  step.stages[2].links.first_rank = step.stages[2].memory.first_rank = 7;
  const StepReport report = step.Finish("dp=8,pp=3");
  EXPECT_DOUBLE_EQ(report.step_time_s, 30.0 + 12.0);
  EXPECT_EQ(report.critical_rank, 5);
  EXPECT_EQ(report.peak_rank, 7);
}

// The first stage ends last, and waits most of the time for the second one.
TEST(Step, TheBusiestStageSaysWhyTheStepIsLong) {
  StepEnd step;
  step.stages.assign(2, step.stages[0]);
  step.syncs.resize(2);
  step.stages[0].end_s = 30.0;
  step.stages[0].time.bubble_s = 20.0;
  step.stages[0].time.backward_s = 10.0;
  step.stages[1].end_s = 28.0;
  step.stages[1].time.bubble_s = 3.0;
  step.stages[1].time.expert_s = 25.0;
  const StepReport report = step.Finish("dp=8,pp=2");
  EXPECT_DOUBLE_EQ(report.time.bubble_s, 20.0);
  EXPECT_DOUBLE_EQ(report.busiest.expert_s, 25.0);
  EXPECT_DOUBLE_EQ(report.busiest.bubble_s, 3.0 + 2.0);
  EXPECT_DOUBLE_EQ(report.busiest.Total(), report.step_time_s);
}

// A stage with eight modules of 10 MB, over the four GPUs of a host.
class StageSyncs {
 public:
  Problem problem;
  StageCost stage;

  StageSyncs() {
    problem.workload = SmallWorkload();
    problem.gpu_types = {SmallCluster()};
    problem.framework.gradients.reduce_in_backward = true;
    problem.gpus.emplace_back(problem.gpu_types[0].gpu, Precision::kBf16, 5e-6);
    stage.links.dp = {.size = 4,
                      .hosts = 1,
                      .bandwidth_bytes_per_s = 1e10,
                      .intra_latency_s = 1e-6,
                      .inter_latency_s = 1e-5};
    stage.links.shards.within = stage.links.dp;
    stage.modules.assign(8, {.tensor_bytes = {1e7}, .backward_s = 0.01});
  }

  [[nodiscard]] StageSync Sync(const char* config) const {
    return SynchronizeStages(problem, ParseParallelConfig(config), {stage})
        .front();
  }
};

// Stage 2 scatters the gradients of every microbatch, stage 1 those of the
// step. Scattering is half of an all-reduce.
TEST(StageSync, ZeroStage2ReducesTheGradientsOfEveryMicrobatch) {
  StageSyncs syncs;
  syncs.problem.framework.sharding.no_sync = false;
  const double one_s =
      syncs.Sync("dp=4,zero_stage=2,zero_bucket_mb=1000").reduce.exposed_s;
  const double four_s =
      syncs.Sync("dp=4,zero_stage=2,zero_bucket_mb=1000,microbatches=4")
          .reduce.exposed_s;
  EXPECT_GT(one_s, 0.0);
  EXPECT_DOUBLE_EQ(four_s, 4 * one_s);
  syncs.problem.framework.sharding.fsdp = true;
  syncs.problem.framework.sharding.no_sync = true;
  EXPECT_DOUBLE_EQ(
      syncs.Sync("dp=4,zero_stage=2,microbatches=4").reduce.exposed_s,
      syncs.Sync("dp=4,zero_stage=2").reduce.exposed_s);
}

}  // namespace trials::step_test
