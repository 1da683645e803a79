#include "trials/simulator/sharding.h"

#include <gtest/gtest.h>

#include "tests/trials/simulator/problem.h"
#include "trials/simulator/collectives.h"
#include "trials/simulator/simulator.h"

namespace trials::sharding_test {

Framework Fsdp(bool within_host) {
  Framework framework;
  framework.fsdp = true;
  framework.shard_within_host = within_host;
  return framework;
}

// A copy over four ranks of a host, two copies over a slower network.
ShardLinks TwoCopies() {
  return {{4, 1, 20e9, 5e-6, 30e-6}, {2, 2, 1e9, 5e-6, 30e-6}};
}

TEST(Sharding, HybridGathersWithinTheHostAndReducesAPartBetweenHosts) {
  const ShardLinks links = TwoCopies();
  const Framework framework = Fsdp(true);
  ParallelConfig config;
  config.dp = 8;
  config.zero_stage = 3;
  const ShardedChunk chunk{1, 1e8, 0.0, 2.0};
  const double gather_s =
      AllGatherTime(links.within, 2e8) + framework.bucket_overhead_s;
  EXPECT_DOUBLE_EQ(GatherParametersTime(chunk, links, config, framework, 1.0),
                   gather_s);
  // A quarter of the gradients crosses the network for any dp.
  EXPECT_DOUBLE_EQ(GatherAndScatterTime(chunk, links, config, framework, 1.0),
                   gather_s + ReduceScatterTime(links.within, 2e8) +
                       AllReduceTime(links.across, 2e8 / 4) +
                       framework.bucket_overhead_s);
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

// Two blocks of 2e8 bytes and ends of 1e8 in buckets of at most 1e8 bytes: five
// messages; in larger buckets one for each block.
TEST(Sharding, BucketsAreAsManyAsTheParametersFillAndNoFewerThanBlocks) {
  const ShardLinks links{{4, 1, 20e9, 5e-6, 30e-6}, {}};
  Framework framework;
  framework.overlap_slowdown = 0.25;
  framework.zero_bucket_bytes = 1e8;
  ParallelConfig config;
  config.dp = 4;
  config.zero_stage = 3;
  config.overlap_zero_comm = false;
  const ShardedChunk chunk{2, 1e8, 0.5e8, 2.0};
  const double five_s =
      5 * (AllGatherTime(links.within, 1e8) + framework.bucket_overhead_s);
  EXPECT_DOUBLE_EQ(GatherParametersTime(chunk, links, config, framework, 1.0),
                   five_s);
  EXPECT_DOUBLE_EQ(GatherAndScatterTime(chunk, links, config, framework, 1.0),
                   2 * five_s);
  framework.zero_bucket_bytes = 1e12;
  EXPECT_DOUBLE_EQ(
      GatherParametersTime(chunk, links, config, framework, 1.0),
      2 * (AllGatherTime(links.within, 2.5e8) + framework.bucket_overhead_s));
}

// What overlaps costs a quarter of its time, as far as there is computation.
TEST(Sharding, OverlappedBucketsHideBehindComputation) {
  const ShardLinks links{{4, 1, 20e9, 5e-6, 30e-6}, {}};
  Framework framework;
  framework.overlap_slowdown = 0.25;
  ParallelConfig config;
  config.dp = 4;
  config.zero_stage = 3;
  config.overlap_zero_comm = false;
  const ShardedChunk chunk{2, 1e8, 0.5e8, 2.0};
  const double one_s =
      GatherParametersTime(chunk, links, config, framework, 1e9);
  config.overlap_zero_allgather = true;
  const auto gather_s = [&](double compute_s) {
    return GatherParametersTime(chunk, links, config, framework, compute_s);
  };
  EXPECT_DOUBLE_EQ(gather_s(0.0), one_s);
  EXPECT_DOUBLE_EQ(gather_s(1e9), 0.25 * one_s);
  EXPECT_DOUBLE_EQ(gather_s(0.5 * one_s), 0.5 * one_s + 0.25 * 0.5 * one_s);
  // Backward gathers and scatters; each overlaps where its knob says so.
  const auto both_s = [&] {
    return GatherAndScatterTime(chunk, links, config, framework, 1e9);
  };
  EXPECT_DOUBLE_EQ(both_s(), 1.25 * one_s);
  config.overlap_zero_comm = true;
  EXPECT_DOUBLE_EQ(both_s(), 0.5 * one_s);
}

// Embedding and head first, then a block, then what another block's computation
// does not hide; in backward the ends' gradients last.
TEST(Sharding, BlocksPrefetchTheNextOneOnly) {
  const ShardLinks links{{4, 1, 20e9, 5e-6, 30e-6}, {}};
  Framework framework = Fsdp(false);
  framework.overlap_slowdown = 0.25;
  ParallelConfig config;
  config.dp = 4;
  config.zero_stage = 3;
  config.microbatches = 4;
  const ShardedChunk chunk{3, 1e8, 0.5e8, 2.0};
  const double o = framework.bucket_overhead_s;
  const double ends_s = AllGatherTime(links.within, 1e8) + o;
  const double block_s = AllGatherTime(links.within, 2e8) + o;
  EXPECT_DOUBLE_EQ(GatherParametersTime(chunk, links, config, framework, 0.0),
                   ends_s + 3 * block_s);
  EXPECT_DOUBLE_EQ(GatherParametersTime(chunk, links, config, framework, 1e9),
                   ends_s + block_s + 2 * 0.25 * block_s);
  // Three blocks compute for 0.6 of a gather, so two hide 0.4 of it.
  EXPECT_NEAR(
      GatherParametersTime(chunk, links, config, framework, 0.6 * block_s),
      ends_s + 3 * block_s - 0.75 * 0.4 * block_s, 1e-12);
  framework.no_sync = false;
  EXPECT_DOUBLE_EQ(GatherAndScatterTime(chunk, links, config, framework, 0.0),
                   6 * block_s + ends_s);
  // Only one of four microbatches scatters.
  framework.no_sync = true;
  EXPECT_DOUBLE_EQ(GatherAndScatterTime(chunk, links, config, framework, 0.0),
                   3 * (1 + 0.25) * block_s + 0.25 * ends_s);
}

// On a slow network, backward and the forward that it repeats hide what their
// time covers, at the cost of the slowdown.
TEST(Sharding, RecomputationHidesCommunicationToo) {
  Cluster cluster = SmallCluster();
  cluster.inter.bandwidth_bytes_per_s = 1e8;
  Framework framework;
  framework.overlap_slowdown = 0.25;
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

TEST(Sharding, TwoRanksGatherAndOneDoesNot) {
  ParallelConfig config;
  config.zero_stage = 3;
  const ShardedChunk chunk{1, 1e8, 0.0, 2.0};
  for (const bool fsdp : {false, true}) {
    Framework framework;
    framework.fsdp = fsdp;
    framework.zero_bucket_bytes = 1e12;
    ShardLinks links;
    EXPECT_EQ(GatherParametersTime(chunk, links, config, framework, 0.0), 0.0);
    EXPECT_EQ(GatherAndScatterTime(chunk, links, config, framework, 0.0), 0.0);
    framework.bucket_overhead_s = 0.0;
    links.within = {2, 1, 20e9, 5e-6, 30e-6};
    EXPECT_GT(GatherParametersTime(chunk, links, config, framework, 0.0), 0.0);
    // Copies on one rank each reduce all of their gradients.
    links = {{}, {2, 2, 1e9, 5e-6, 30e-6}};
    EXPECT_NEAR(GatherAndScatterTime(chunk, links, config, framework, 0.0),
                AllReduceTime(links.across, 2e8), 1e-12);
  }
}

// A stage with an embedding only, and one with a single block: nothing runs
// beside its communication.
TEST(Sharding, OneUnitHidesNothing) {
  const ShardLinks links{{4, 1, 20e9, 5e-6, 30e-6}, {}};
  Framework framework = Fsdp(false);
  framework.overlap_slowdown = 0.25;
  ParallelConfig config;
  config.zero_stage = 3;
  const double unit_s =
      AllGatherTime(links.within, 2e8) + framework.bucket_overhead_s;
  const ShardedChunk ends{0, 1e8, 1e8, 2.0};
  EXPECT_DOUBLE_EQ(GatherParametersTime(ends, links, config, framework, 1e9),
                   unit_s);
  EXPECT_DOUBLE_EQ(GatherAndScatterTime(ends, links, config, framework, 1e9),
                   unit_s);
  const ShardedChunk block{1, 1e8, 0.0, 2.0};
  EXPECT_DOUBLE_EQ(GatherParametersTime(block, links, config, framework, 1e9),
                   unit_s);
  EXPECT_DOUBLE_EQ(GatherAndScatterTime(block, links, config, framework, 1e9),
                   2 * unit_s);
}

}  // namespace trials::sharding_test
