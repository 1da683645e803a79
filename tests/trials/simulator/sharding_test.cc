#include "trials/simulator/sharding.h"

#include <gtest/gtest.h>

#include "tests/trials/simulator/problem.h"
#include "trials/knobs.h"
#include "trials/simulator/simulator.h"

namespace trials::sharding_test {

Framework Fsdp(bool within_host) {
  Framework framework;
  framework.sharding.fsdp = true;
  framework.sharding.shard_within_host = within_host;
  return framework;
}

Workload Problem() {
  Workload workload = SmallWorkload();
  workload.model.tied_embeddings = false;
  return workload;
}

StepReport ReportOf(int nodes, int zero_stage, bool within_host) {
  Cluster cluster = SmallCluster();
  cluster.nodes = nodes;
  ParallelConfig config;
  config.dp = cluster.gpus();
  config.zero_stage = zero_stage;
  const Simulator simulator(Problem(), cluster,
                            {.framework = Fsdp(within_host)});
  return simulator.Simulate(config);
}

// The stages and the pipeline under which FSDP differs from ZeRO by buckets.
TEST(Sharding, FsdpBehavesByItsStageAndPipeline) {
  const auto of = [](bool fsdp, int zero_stage, int pp) {
    Framework framework;
    framework.sharding.fsdp = fsdp;
    return BehaviorOf(framework,
                      {.pp = pp, .zero_stage = zero_stage, .microbatches = 4});
  };
  for (const int pp : {1, 2}) {
    for (const int zero_stage : {0, 1, 2, 3}) {
      SCOPED_TRACE(testing::Message()
                   << "ZeRO " << zero_stage << ", pp " << pp);
      const ShardingBehavior buckets = of(false, zero_stage, pp);
      EXPECT_FALSE(buckets.by_module || buckets.fp32_shards ||
                   buckets.masters_only || buckets.keeps_gathered ||
                   buckets.gathers_again || buckets.scatters_once ||
                   buckets.holds_whole_gradients);
      const ShardingBehavior fsdp = of(true, zero_stage, pp);
      EXPECT_EQ(fsdp.by_module, zero_stage > 0);
      EXPECT_EQ(fsdp.fp32_shards, zero_stage >= 2);
      EXPECT_EQ(fsdp.masters_only, zero_stage == 3);
      EXPECT_EQ(fsdp.keeps_gathered, zero_stage == 3 && pp == 2);
      EXPECT_EQ(fsdp.gathers_again, zero_stage == 2 && pp == 1);
      EXPECT_EQ(fsdp.scatters_once, zero_stage >= 2 && pp == 2);
      EXPECT_EQ(fsdp.holds_whole_gradients, fsdp.scatters_once);
    }
  }
}

TEST(Sharding, HybridOnOneHostIsFullSharding) {
  for (const int zero_stage : {0, 1, 2, 3}) {
    SCOPED_TRACE(zero_stage);
    const StepReport full = ReportOf(1, zero_stage, false);
    const StepReport hybrid = ReportOf(1, zero_stage, true);
    EXPECT_EQ(hybrid.step_time_s, full.step_time_s);
    EXPECT_EQ(hybrid.peak_memory_bytes, full.peak_memory_bytes);
  }
}

TEST(Sharding, HybridHoldsTheStatesOfOneHostHoweverManyThereAre) {
  const auto parameters = static_cast<double>(ParameterCount(Problem().model));
  for (const int nodes : {2, 4}) {
    const MemoryBreakdown memory = ReportOf(nodes, 3, true).memory;
    // Masters and two moments in fp32 over the four GPUs of a host.
    EXPECT_NEAR(memory.parameters_bytes + memory.optimizer_bytes,
                12 * parameters / 4, 1.0);
    EXPECT_NEAR(ReportOf(nodes, 3, false).memory.optimizer_bytes,
                12 * parameters / (4 * nodes), 1.0);
  }
}

TEST(Sharding, HybridWithGradientsOnlyShardsThemWithinTheHost) {
  const auto parameters = static_cast<double>(ParameterCount(Problem().model));
  const MemoryBreakdown memory = ReportOf(2, 2, true).memory;
  EXPECT_NEAR(memory.parameters_bytes, 2 * parameters, 1.0);
  EXPECT_NEAR(memory.optimizer_bytes, 12 * parameters / 4, 1.0);
  EXPECT_GT(ReportOf(2, 2, true).time.data_s, ReportOf(1, 2, true).time.data_s);
}

// Full sharding moves parameters twice and gradients once over the network;
// hybrid all-reduces a quarter of the gradients from each of four ranks.
TEST(Sharding, HybridIsFasterWhereTheNetworkIsSlow) {
  EXPECT_LT(ReportOf(2, 3, true).step_time_s,
            ReportOf(2, 3, false).step_time_s);
  EXPECT_LT(ReportOf(2, 2, true).time.data_s,
            ReportOf(2, 2, false).time.data_s);
}

TEST(Sharding, OtherStagesKnowNothingOfHybrid) {
  for (const int zero_stage : {0, 1}) {
    EXPECT_EQ(ReportOf(2, zero_stage, true).step_time_s,
              ReportOf(2, zero_stage, false).step_time_s);
    EXPECT_EQ(ReportOf(2, zero_stage, true).peak_memory_bytes,
              ReportOf(2, zero_stage, false).peak_memory_bytes);
  }
}

// dp = 1 and cp = 8: all ranks hold copies of the parameters.
TEST(Sharding, TheRanksOfAContextShardStatesWithoutDataParallelism) {
  const auto states = [](int zero_stage) {
    const ParallelConfig config =
        Canonical({.zero_stage = zero_stage, .cp = 8});
    return Simulator(Problem(), SmallCluster(), {})
        .Simulate(config)
        .memory.optimizer_bytes;
  };
  ASSERT_EQ(SmallCluster().gpus(), 8);
  EXPECT_DOUBLE_EQ(states(1), states(0) / 8);
}

TEST(Sharding, BlocksIn8BitsAreGatheredInHalfTheTime) {
  Cluster cluster = SmallCluster();
  cluster.gpu = FindGpu("h100-sxm");
  cluster.inter.bandwidth_bytes_per_s = 1e7;
  Workload workload = Problem();
  workload.precision = Precision::kFp8;
  Framework framework = Fsdp(false);
  ParallelConfig config;
  config.dp = 8;
  config.zero_stage = 3;
  const auto data_s = [&](bool gathers) {
    framework.collectives.fp8_gathers = gathers;
    return Simulator(workload, cluster, {.framework = framework})
        .Simulate(config)
        .time.data_s;
  };
  const double elements =
      static_cast<double>(ParameterCount(workload.model)) -
      2.0 * workload.model.vocab_size * workload.model.hidden_size;
  // Forward and backward, a byte less for 7 of 8 parameters of the blocks.
  EXPECT_NEAR(data_s(false) - data_s(true), 2 * elements * 7 / 8 / 1e7,
              0.05 * data_s(true));
}

// On a slow network, backward and the forward that it repeats hide what their
// time covers, at the cost of the slowdown.
TEST(Sharding, RecomputationHidesCommunicationToo) {
  Cluster cluster = SmallCluster();
  cluster.inter.bandwidth_bytes_per_s = 1e8;
  Framework framework;
  framework.collectives.overlap_slowdown = 0.25;
  const Simulator simulator(Problem(), cluster, {.framework = framework});
  ParallelConfig config;
  config.dp = 8;
  config.zero_stage = 3;
  config.overlap_zero_allgather = config.overlap_zero_comm = true;
  const StepReport kept = simulator.Simulate(config);
  config.grad_checkpoint = kRecomputeFull;
  const StepReport repeated = simulator.Simulate(config);
  EXPECT_GT(repeated.time.recompute_s, 0.0);
  EXPECT_NEAR(kept.time.data_s - repeated.time.data_s,
              0.75 * repeated.time.recompute_s, 1e-9);
}

}  // namespace trials::sharding_test
