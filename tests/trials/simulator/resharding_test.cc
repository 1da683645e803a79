#include "trials/simulator/resharding.h"

#include <gtest/gtest.h>

#include "tests/trials/simulator/problem.h"
#include "trials/simulator/collectives.h"
#include "trials/simulator/placement.h"
#include "trials/simulator/simulator.h"

namespace trials::resharding_test {

constexpr double kLink = 100e9;
constexpr double kCard = 10e9;
constexpr double kIntra = 1e-6;
constexpr double kInter = 1e-5;

// Hosts with a switch among their GPUs and one network card.
Cluster Hosts(int gpus_per_node, int nodes) {
  Cluster cluster;
  cluster.gpus_per_node = gpus_per_node;
  cluster.nodes = nodes;
  cluster.intra = {"intra", kLink, kIntra};
  cluster.inter = {"inter", kCard, kInter};
  return cluster;
}

// What the busiest receiver gets, in units of n, the bytes of a part of the
// tokens; the bytes that cross the busiest link or card; the messages of the
// busiest rank.
struct Transfer {
  const char* name;
  int hosts;  // of eight GPUs, or of four if there are two
  HiddenStates from, to;
  double received;
  double crossing;
  int messages;
};

class ReshardingTransfer : public testing::TestWithParam<Transfer> {};

TEST_P(ReshardingTransfer, TakesItsBytesOverTheBusiestLink) {
  Transfer transfer = GetParam();
  const Cluster cluster = Hosts(8 / transfer.hosts, transfer.hosts);
  transfer.from.cluster = transfer.to.cluster = &cluster;
  const bool crosses = transfer.hosts > 1;
  const Resharding r = Reshard(transfer.from, transfer.to);
  EXPECT_DOUBLE_EQ(r.received_share, transfer.received);
  EXPECT_DOUBLE_EQ(r.seconds_per_byte,
                   transfer.crossing / (crosses ? kCard : kLink));
  EXPECT_DOUBLE_EQ(r.latency_s,
                   transfer.messages * (crosses ? kInter : kIntra));
}

const Transfer kTransfers[] = {
    {"ReplicasAreGathered", 1, {.dp = 4}, {.first_rank = 4, .tp = 4}, 1, 1, 4},
    {"EachCopyServesOne",
     1,
     {.tp = 4},
     {.first_rank = 4, .dp = 4},
     .25,
     .25,
     1},
    {"OneServesAll", 1, {}, {.first_rank = 1, .dp = 2, .tp = 2}, .5, 2, 4},
    {"PartsOverlap", 1, {.dp = 3}, {.first_rank = 3, .dp = 2}, .5, .5, 2},
    {"SplitTokensAreJoined",
     1,
     {.tp = 2, .sp = true},
     {.first_rank = 2, .dp = 2},
     .5,
     .5,
     2},
    {"ContextsKeepTheirTokens",
     1,
     {.dp = 2, .cp = 2},
     {.first_rank = 4, .tp = 2, .cp = 2},
     1,
     1,
     2},
    {"CopiesCrossHosts", 2, {.dp = 4}, {.first_rank = 4, .tp = 4}, 1, 4, 4},
    {"AllCrossesOnce", 2, {.tp = 4}, {.first_rank = 4, .dp = 4}, .25, 1, 1},
    {"SequenceParallelismSendsNothingTwice",
     2,
     {.dp = 4},
     {.first_rank = 4, .tp = 4, .sp = true},
     .25,
     1,
     4},
    {"ContextsShareTheCard",
     2,
     {.tp = 2, .cp = 2},
     {.first_rank = 4, .dp = 2, .cp = 2},
     .5,
     2,
     1}};

INSTANTIATE_TEST_SUITE_P(Resharding, ReshardingTransfer,
                         testing::ValuesIn(kTransfers),
                         [](const auto& transfer) {
                           return transfer.param.name;
                         });

TEST(Resharding, UplinksCountWhereMessagesCrossThem) {
  Cluster host = Hosts(8, 1);
  host.gpus_per_switch = 4;
  host.uplink = {"uplink", 20e9, kIntra};
  const Resharding r = Reshard({&host, 0, 4, 1, 1}, {&host, 4, 1, 4, 1});
  EXPECT_DOUBLE_EQ(r.seconds_per_byte, 4.0 / 20e9);
}

TEST(Resharding, BetweenTwoGpuTypesTheSlowerCardCounts) {
  const Cluster fast = Hosts(4, 1);
  Cluster slow = Hosts(4, 1);
  slow.inter.bandwidth_bytes_per_s = 1e9;
  // Both stages have first rank 0, each of its own type.
  const Resharding r = Reshard({&fast, 0, 1, 4, 1}, {&slow, 0, 4, 1, 1});
  EXPECT_DOUBLE_EQ(r.seconds_per_byte, 1.0 / 1e9);
}

// The card that leads to the other type is the slowest link of either side.
TEST(Resharding, OnlyMessagesToAnotherGpuTypeUseTheOuterNetwork) {
  Cluster outer = Hosts(4, 2);
  outer.outer = {"outer", 1e9, kInter};
  const Cluster other = Hosts(4, 1);
  const auto seconds = [](const HiddenStates& from, const HiddenStates& to) {
    return Reshard(from, to).seconds_per_byte;
  };
  EXPECT_DOUBLE_EQ(seconds({&outer, 0, 1, 4, 1}, {&outer, 4, 4, 1, 1}),
                   1.0 / kCard);
  EXPECT_DOUBLE_EQ(seconds({&outer, 0, 1, 4, 1}, {&other, 0, 4, 1, 1}),
                   1.0 / 1e9);
  EXPECT_DOUBLE_EQ(seconds({&other, 0, 1, 4, 1}, {&outer, 0, 4, 1, 1}),
                   1.0 / 1e9);
}

TEST(Resharding, EqualStagesGetTheTimeOfTheirMessages) {
  for (const int hosts : {1, 2}) {
    const Cluster cluster = Hosts(8 / hosts, hosts);
    const std::vector<Cluster> gpu_types = {cluster};
    for (const char* text : {"dp=2,tp=2,pp=2", "dp=4,pp=2", "tp=4,pp=2"}) {
      SCOPED_TRACE(text);
      const ParallelConfig config = ParseParallelConfig(text);
      const GroupLink link = PlacePlan(gpu_types, UniformPlan(config, 8),
                                       {.pipeline_outermost = true})
                                 .forward[0];
      const Resharding r = Reshard({&gpu_types[0], 0, config.dp, config.tp, 1},
                                   {&gpu_types[0], 4, config.dp, config.tp, 1});
      const double bytes = 1e8;
      EXPECT_NEAR(r.latency_s + r.seconds_per_byte * bytes,
                  MessageTime(link, bytes / config.dp), 1e-12);
    }
  }
}

// Only the way between the stages differs in the two plans' transfers.
TEST(Resharding, APlanPaysForWhatItReshards) {
  Workload workload = SmallWorkload();
  workload.model.kv_heads = workload.model.attention_heads;
  Framework framework;
  framework.pipeline.p2p_overhead_s = 0.0;
  framework.pipeline.pipeline_outermost = true;
  const Cluster cluster = Hosts(4, 2);
  Cluster gpus = SmallCluster();
  gpus.intra = cluster.intra;
  gpus.inter = cluster.inter;
  gpus.gpus_per_switch = 0;
  const Simulator simulator(workload, gpus, {.framework = framework});
  Plan plan = UniformPlan(ParseParallelConfig("dp=4,pp=2,microbatches=1"), 8);
  plan.stages[1] = {.dp = 1, .tp = 4};
  // One microbatch: the hidden states there and their gradients back, four
  // copies through a card there, one back.
  const double bytes = 2.0 * workload.batch_size * workload.sequence_length *
                       workload.model.hidden_size;
  const StepReport report = simulator.Simulate(plan);
  const double moved_s = (4 + 1) * bytes / kCard + 4 * kInter + kInter;
  EXPECT_NEAR(report.time.pipeline_s, moved_s, 1e-9);
}

// A GPU of a V100 host has one link to another GPU, and all of them to the
// network card.
TEST(Resharding, WithoutASwitchTwoGpusShareTheLinksBetweenThem) {
  Cluster hosts = Hosts(2, 2);
  hosts.inter.bandwidth_bytes_per_s = 1e15;
  hosts.rings = {1, 4};
  const auto seconds_per_byte = [&](int receiver) {
    return Reshard({&hosts, 0, 1, 1, 1}, {&hosts, receiver, 1, 1, 1})
        .seconds_per_byte;
  };
  EXPECT_DOUBLE_EQ(seconds_per_byte(1), 1.0 / hosts.RingBytesPerSecond(2));
  EXPECT_DOUBLE_EQ(seconds_per_byte(2), 1.0 / hosts.RingBytesPerSecond(1));
}

}  // namespace trials::resharding_test
