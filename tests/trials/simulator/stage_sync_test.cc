#include "trials/simulator/stage_sync.h"

#include <gtest/gtest.h>

#include "tests/trials/simulator/problem.h"
#include "trials/knobs.h"
#include "trials/simulator/collectives.h"

namespace trials::stage_sync_test {

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

// Tensor parallelism takes its share of PCIe, but NVLink has room for both.
TEST(StageSync, TensorParallelismDelaysGradientsExceptOnNvlink) {
  for (const bool nvlink : {false, true}) {
    StageSyncs syncs;
    syncs.stage.links.dp.nvlink = nvlink;
    const double alone_s = syncs.Sync("dp=4,dp_bucket_mb=10").reduce.exposed_s;
    syncs.stage.tensor_share = 0.9;
    const double shared_s = syncs.Sync("dp=4,dp_bucket_mb=10").reduce.exposed_s;
    if (nvlink) {
      EXPECT_EQ(shared_s, alone_s);
    } else {
      EXPECT_GT(shared_s, 1.1 * alone_s);
    }
  }
}

TEST(StageSync, OverlapsWithBackwardWithoutAPipelineOnly) {
  const StageSyncs syncs;
  const double hidden_s = syncs.Sync("dp=4,dp_bucket_mb=10").reduce.exposed_s;
  const double exposed_s =
      syncs.Sync("dp=4,pp=2,microbatches=4").reduce.exposed_s;
  // A ring over four ranks sends 3/2 of the bytes.
  EXPECT_GT(exposed_s, 8 * 1.5e7 / 1e10);
  EXPECT_LT(hidden_s, exposed_s / 3);
}

TEST(StageSync, ZeroStage3SynchronizesWithinItsActions) {
  const StageSync sync = StageSyncs().Sync("dp=4,zero_stage=3");
  EXPECT_EQ(sync.reduce.exposed_s, 0.0);
  EXPECT_EQ(sync.gather.total_s, 0.0);
}

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
  syncs.problem.framework.sharding.no_sync = true;
  EXPECT_DOUBLE_EQ(
      syncs.Sync("dp=4,zero_stage=2,zero_bucket_mb=1000,microbatches=4")
          .reduce.exposed_s,
      one_s);
}

TEST(StageSync, OnlyZeroGathersParameters) {
  const StageSyncs syncs;
  EXPECT_EQ(syncs.Sync("dp=4").gather.total_s, 0.0);
  const StageSync sync = syncs.Sync("dp=4,zero_stage=1,zero_bucket_mb=1000");
  const double parameter_bytes =
      8e7 * 2 / syncs.problem.framework.GradientBytes(2.0);
  EXPECT_GT(sync.gather.total_s, 3.0 / 4 * parameter_bytes / 1e10);
  EXPECT_LT(sync.gather.total_s, 1.5 * parameter_bytes / 1e10);
}

// Experts are synchronized over their own ranks, in addition to the rest.
TEST(StageSync, ExpertsAddTheTimeOfTheirOwnLink) {
  StageSyncs syncs;
  const char* const config = "dp=4,pp=2,microbatches=4";
  const double without_s = syncs.Sync(config).reduce.exposed_s;
  syncs.stage.links.expert_dp = syncs.stage.links.dp;
  syncs.stage.links.expert_dp.bandwidth_bytes_per_s /= 2;
  syncs.stage.expert_modules = syncs.stage.modules;
  const double with_s = syncs.Sync(config).reduce.exposed_s;
  EXPECT_GT(with_s - without_s, 1.5 * without_s);
  EXPECT_LT(with_s - without_s, 2.1 * without_s);
}

}  // namespace trials::stage_sync_test
