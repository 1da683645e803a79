#include "trials/simulator/stage_sync.h"

#include <string>
#include <vector>

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
    problem.framework.reduce_in_backward = true;
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
  syncs.problem.framework.no_sync = false;
  const double one_s =
      syncs.Sync("dp=4,zero_stage=2,zero_bucket_mb=1000").reduce.exposed_s;
  const double four_s =
      syncs.Sync("dp=4,zero_stage=2,zero_bucket_mb=1000,microbatches=4")
          .reduce.exposed_s;
  EXPECT_GT(one_s, 0.0);
  EXPECT_DOUBLE_EQ(four_s, 4 * one_s);
  syncs.problem.framework.no_sync = true;
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

// Eight buckets of 10 MB; copies into a bucket and back move 4 and 2 bytes for
// each of theirs.
TEST(StageSync, BucketsAreCopiedUnlessAPipelineReducesInPlace) {
  StageSyncs syncs;
  syncs.problem.framework.reduce_in_backward = false;
  const double byte_s = syncs.problem.gpus[0].MemoryTime(1e9, 0) / 1e9;
  const double all_s = AllReduceTime(syncs.stage.links.dp, 8e7);
  const StageSync whole = syncs.Sync("dp=4");
  EXPECT_NEAR(whole.reduce.exposed_s, all_s + 6 * 8e7 * byte_s, 1e-9);
  EXPECT_DOUBLE_EQ(whole.reduce.overhead_s,
                   syncs.problem.framework.bucket_overhead_s);
  EXPECT_NEAR(syncs.Sync("dp=4,pp=2,microbatches=4").reduce.exposed_s, all_s,
              1e-9);
  syncs.problem.framework.reduce_in_backward = true;
  const double one_s = AllReduceTime(syncs.stage.links.dp, 1e7);
  EXPECT_NEAR(syncs.Sync("dp=4,pp=2,microbatches=4").reduce.exposed_s,
              8 * one_s, 1e-9);
}

// With NVLink the gradients have the link for themselves.
TEST(StageSync, GradientsOnNvlinkTakeTheTimeOfABucketAlone) {
  StageSyncs syncs;
  syncs.stage.links.dp.nvlink = true;
  syncs.stage.tensor_share = 0.9;
  syncs.problem.framework.bucket_pack_bytes = 0.0;
  syncs.problem.framework.bucket_unpack_bytes = 0.0;
  for (SyncModule& module : syncs.stage.modules) {
    module.backward_s = 0.0;  // nothing to hide behind
  }
  EXPECT_DOUBLE_EQ(syncs.Sync("dp=4,dp_bucket_mb=1").reduce.exposed_s,
                   8 * AllReduceTime(syncs.stage.links.dp, 1e7));
}

// Eight buckets on a link that is slower than backward: the first starts after
// a module, and the others follow one another.
TEST(StageSync, GradientsOnNvlinkDoNotWaitForTensorParallelism) {
  StageSyncs syncs;
  syncs.stage.links.dp.nvlink = true;
  syncs.stage.tensor_share = 0.9;
  syncs.problem.framework.bucket_pack_bytes = 0.0;
  syncs.problem.framework.bucket_unpack_bytes = 0.0;
  syncs.problem.framework.overlap_slowdown = 0.25;
  constexpr double kModule_s = 1e-3;
  for (SyncModule& module : syncs.stage.modules) {
    module.backward_s = kModule_s;
  }
  const double bucket_s = AllReduceTime(syncs.stage.links.dp, 1e7);
  ASSERT_GT(bucket_s, kModule_s);
  const double after_s = 8 * bucket_s - 7 * kModule_s;
  EXPECT_NEAR(syncs.Sync("dp=4,dp_bucket_mb=1").reduce.exposed_s,
              after_s + 0.25 * 7 * kModule_s, 1e-12);
}

// Two tensors of each module fit into its bucket.
TEST(StageSync, ABucketOfFsdpIsAModule) {
  StageSyncs syncs;
  Framework& framework = syncs.problem.framework;
  framework.fsdp = true;
  syncs.stage.modules.assign(8,
                             {.tensor_bytes = {6e6, 4e6}, .backward_s = 0.01});
  for (const bool fp32 : {false, true}) {
    framework.fp32_gradients = fp32;
    syncs.stage.memory.largest_module = 1e7 / (fp32 ? 4 : 2);
    EXPECT_DOUBLE_EQ(
        syncs.Sync("dp=4,zero_stage=1,overlap_zero_comm=0").reduce.overhead_s,
        8 * framework.bucket_overhead_s);
    syncs.stage.memory.largest_module *= 0.99;
    EXPECT_DOUBLE_EQ(
        syncs.Sync("dp=4,zero_stage=1,overlap_zero_comm=0").reduce.overhead_s,
        16 * framework.bucket_overhead_s);
  }
}

TEST(StageSync, TheNextForwardWaitsForTheSlowerFirstMessage) {
  StageSyncs syncs;
  const char* const config =
      "dp=4,zero_stage=1,zero_bucket_mb=1000,overlap_zero_allgather=1";
  const double first_s = syncs.Sync(config).gather.first_s;
  syncs.stage.links.expert_dp = syncs.stage.links.dp;
  syncs.stage.expert_modules = {{.tensor_bytes = {1e3}}};
  EXPECT_EQ(syncs.Sync(config).gather.first_s, first_s);
  syncs.stage.expert_modules = {{.tensor_bytes = {1e9}}};
  EXPECT_GT(syncs.Sync(config).gather.first_s, 10 * first_s);
}

TEST(StageSync, DependsOnTheBucketsThatItsStageOfZeroUses) {
  Framework framework;
  const auto knobs = [&](const char* text) {
    return StageSyncKnobs(framework, ParseParallelConfig(text));
  };
  const ParallelConfig defaults;
  const std::string ddp = "dp=8,dp_bucket_mb=8";
  const std::string zero = "dp=8,zero_stage=1,zero_bucket_mb=8,dp_bucket_mb=8";
  EXPECT_EQ(knobs(ddp.c_str()).dp_bucket_mb, 8);
  EXPECT_EQ(knobs("dp=4,pp=2,microbatches=2,dp_bucket_mb=8").dp_bucket_mb,
            defaults.dp_bucket_mb);
  EXPECT_EQ(knobs("dp=8,zero_bucket_mb=8").zero_bucket_mb,
            defaults.zero_bucket_mb);
  EXPECT_EQ(knobs(zero.c_str()).dp_bucket_mb, defaults.dp_bucket_mb);
  EXPECT_EQ(knobs(zero.c_str()).zero_bucket_mb, 8);
  framework.zero_bucket_bytes = 0.05;
  EXPECT_EQ(knobs(zero.c_str()).zero_bucket_mb, defaults.zero_bucket_mb);
  framework.zero_bucket_bytes = 0.0;
  framework.fsdp = true;
  EXPECT_EQ(knobs(zero.c_str()).zero_bucket_mb, defaults.zero_bucket_mb);
}

// Without overlap, nothing that changes the time of backward matters; stage 2
// reduces in every microbatch.
TEST(StageSync, DependsOnBackwardWhereItOverlapsOnly) {
  const Framework framework;
  const auto knobs = [&](const char* text) {
    return StageSyncKnobs(framework, ParseParallelConfig(text));
  };
  EXPECT_EQ(knobs("dp=8,microbatches=4,grad_checkpoint=1").microbatches, 4);
  EXPECT_EQ(knobs("dp=8,microbatches=4,grad_checkpoint=1").grad_checkpoint, 1);
  const char* const exposed =
      "dp=8,microbatches=4,zero_stage=1,overlap_zero_comm=0,grad_checkpoint=1";
  EXPECT_EQ(knobs(exposed).microbatches, 1);
  EXPECT_EQ(knobs(exposed).grad_checkpoint, 0);
  EXPECT_EQ(knobs("dp=8,microbatches=4,zero_stage=2,overlap_zero_comm=0")
                .microbatches,
            4);
}

// The overheads of both gathers add up, and the larger slowdown counts.
TEST(StageSync, GathersOfExpertsAreInAddition) {
  StageSyncs syncs;
  const char* const config = "dp=4,zero_stage=1,zero_bucket_mb=1000";
  syncs.stage.links.dp.slowdown = 0.5;
  const double overhead_s = syncs.Sync(config).gather.overhead_s;
  EXPECT_GT(overhead_s, 0.0);
  EXPECT_EQ(syncs.Sync(config).gather.slowdown, 0.5);
  syncs.stage.links.expert_dp = syncs.stage.links.dp;
  syncs.stage.links.expert_dp.slowdown = 0.25;
  syncs.stage.expert_modules = {{.tensor_bytes = {1e3}}};
  const GatherPlan both = syncs.Sync(config).gather;
  EXPECT_DOUBLE_EQ(both.overhead_s,
                   overhead_s + syncs.problem.framework.bucket_overhead_s);
  EXPECT_EQ(both.slowdown, 0.5);
  syncs.stage.links.expert_dp.slowdown = 0.75;
  EXPECT_EQ(syncs.Sync(config).gather.slowdown, 0.75);
}

}  // namespace trials::stage_sync_test
