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

TEST(Resharding, GatheringReplicasSendsEachPartToEveryTensorParallelRank) {
  const Cluster host = Hosts(8, 1);
  // Four senders with a quarter each, four receivers that need all of it.
  const Resharding r = Reshard({&host, 0, 4, 1, 1}, {&host, 4, 1, 4, 1});
  EXPECT_DOUBLE_EQ(r.received_share, 1.0);
  EXPECT_DOUBLE_EQ(r.seconds_per_byte, 1.0 / kLink);
  EXPECT_DOUBLE_EQ(r.latency_s, 4 * kIntra);
}

TEST(Resharding, SplittingUsesTheCopiesOfAllTensorParallelRanks) {
  const Cluster host = Hosts(8, 1);
  // Four senders with all of it; each serves one receiver of a quarter.
  const Resharding r = Reshard({&host, 0, 1, 4, 1}, {&host, 4, 4, 1, 1});
  EXPECT_DOUBLE_EQ(r.received_share, 0.25);
  EXPECT_DOUBLE_EQ(r.seconds_per_byte, 0.25 / kLink);
  EXPECT_DOUBLE_EQ(r.latency_s, kIntra);
}

TEST(Resharding, OneSenderServesAllReceiversOverItsLink) {
  const Cluster host = Hosts(8, 1);
  const Resharding r = Reshard({&host, 0, 1, 1, 1}, {&host, 1, 2, 2, 1});
  EXPECT_DOUBLE_EQ(r.received_share, 0.5);
  EXPECT_DOUBLE_EQ(r.seconds_per_byte, 4 * 0.5 / kLink);
  EXPECT_DOUBLE_EQ(r.latency_s, 4 * kIntra);
}

TEST(Resharding, MessagesBetweenHostsShareTheirCards) {
  const Cluster hosts = Hosts(4, 2);
  // Every copy crosses: four times the whole microbatch through one card.
  const Resharding gather = Reshard({&hosts, 0, 4, 1, 1}, {&hosts, 4, 1, 4, 1});
  EXPECT_DOUBLE_EQ(gather.seconds_per_byte, 4.0 / kCard);
  EXPECT_DOUBLE_EQ(gather.latency_s, 4 * kInter);
  // Once the microbatch.
  const Resharding split = Reshard({&hosts, 0, 1, 4, 1}, {&hosts, 4, 4, 1, 1});
  EXPECT_DOUBLE_EQ(split.seconds_per_byte, 1.0 / kCard);
}

TEST(Resharding, UnderSequenceParallelismNothingIsSentTwice) {
  const Cluster hosts = Hosts(4, 2);
  const Resharding r =
      Reshard({&hosts, 0, 4, 1, 1}, {&hosts, 4, 1, 4, 1, /*sp=*/true});
  EXPECT_DOUBLE_EQ(r.received_share, 0.25);
  EXPECT_DOUBLE_EQ(r.seconds_per_byte, 1.0 / kCard);
  // Halves of the tokens become quarters: a message each.
  const Resharding finer =
      Reshard({&hosts, 0, 2, 2, 1, true}, {&hosts, 4, 1, 4, 1, true});
  EXPECT_DOUBLE_EQ(finer.received_share, 0.25);
  EXPECT_DOUBLE_EQ(finer.latency_s, 2 * kInter);  // of two replicas
}

TEST(Resharding, PartsThatDoNotNestOverlapByThirds) {
  const Cluster host = Hosts(8, 1);
  // Receivers of halves; the middle sender of three serves both.
  const Resharding r = Reshard({&host, 0, 3, 1, 1}, {&host, 3, 2, 1, 1});
  EXPECT_DOUBLE_EQ(r.received_share, 0.5);
  EXPECT_DOUBLE_EQ(r.seconds_per_byte, 0.5 / kLink);
  EXPECT_DOUBLE_EQ(r.latency_s, 2 * kIntra);
}

TEST(Resharding, ContextParallelRanksKeepTheirTokens) {
  const Cluster host = Hosts(8, 1);
  const Resharding r = Reshard({&host, 0, 2, 1, 2}, {&host, 4, 1, 2, 2});
  EXPECT_DOUBLE_EQ(r.received_share, 1.0);  // of one of the two parts
  EXPECT_DOUBLE_EQ(r.seconds_per_byte, 1.0 / kLink);
}

// All messages pass from the first host to the second: those of both parts of
// the tokens, and the card of each host carries them.
TEST(Resharding, ContextParallelRanksFollowOneAnother) {
  const Cluster hosts = Hosts(4, 2);
  for (const bool split : {false, true}) {
    const HiddenStates one{&hosts, 0, 1, 2, 2};
    const HiddenStates two{&hosts, 4, 2, 1, 2};
    HiddenStates moved = two;
    moved.first_rank = 0;
    HiddenStates back = one;
    back.first_rank = 4;
    const Resharding r = split ? Reshard(one, two) : Reshard(moved, back);
    EXPECT_DOUBLE_EQ(r.seconds_per_byte, (split ? 2 : 4) / kCard);
    EXPECT_DOUBLE_EQ(r.received_share, split ? 0.5 : 1.0);
    EXPECT_DOUBLE_EQ(r.latency_s, (split ? 1 : 2) * kInter);
  }
}

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
  framework.p2p_overhead_s = 0.0;
  framework.pipeline_outermost = true;
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

// Each receiver needs both halves of the tokens.
TEST(Resharding, SplitTokensAreJoinedFromAllRanks) {
  const Cluster host = Hosts(4, 1);
  const Resharding r = Reshard({&host, 0, 1, 2, 1, true}, {&host, 2, 2, 1, 1});
  EXPECT_DOUBLE_EQ(r.received_share, 0.5);
  EXPECT_DOUBLE_EQ(r.seconds_per_byte, 0.5 / kLink);
  EXPECT_DOUBLE_EQ(r.latency_s, 2 * kIntra);
}

TEST(Resharding, SharesOfASixteenthArriveToo) {
  const Cluster host = Hosts(32, 1);
  const Resharding r = Reshard({&host, 0, 16, 1, 1}, {&host, 16, 1, 1, 1});
  EXPECT_DOUBLE_EQ(r.received_share, 1.0);
  EXPECT_DOUBLE_EQ(r.latency_s, 16 * kIntra);
}

// Four copies on the second host, four receivers there: one message each.
TEST(Resharding, EveryCopyServesOneReceiver) {
  const Cluster hosts = Hosts(8, 2);
  const Resharding r = Reshard({&hosts, 8, 1, 4, 1}, {&hosts, 12, 2, 2, 1});
  EXPECT_DOUBLE_EQ(r.received_share, 0.5);
  EXPECT_DOUBLE_EQ(r.seconds_per_byte, 0.5 / kLink);
  EXPECT_DOUBLE_EQ(r.latency_s, kIntra);
}

TEST(Resharding, MessagesBehindOneSwitchLeaveItsUplinkAlone) {
  Cluster host = Hosts(8, 1);
  host.uplink = {"uplink", 1e9, kIntra};
  const auto seconds_per_byte = [&](int gpus_per_switch) {
    host.gpus_per_switch = gpus_per_switch;
    return Reshard({&host, 4, 2, 1, 1}, {&host, 6, 1, 2, 1}).seconds_per_byte;
  };
  EXPECT_DOUBLE_EQ(seconds_per_byte(0), 1.0 / kLink);
  EXPECT_DOUBLE_EQ(seconds_per_byte(4), 1.0 / kLink);
  // Behind switches of its own, each receiver needs its uplink for all of it.
  EXPECT_DOUBLE_EQ(seconds_per_byte(1), 1.0 / 1e9);
  host.peer_access = false;
  EXPECT_DOUBLE_EQ(seconds_per_byte(4), 2.0 / 1e9);  // two copies go up
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
