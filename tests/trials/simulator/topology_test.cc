#include "trials/simulator/topology.h"

#include <cmath>
#include <stdexcept>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trials::topology_test {

using ::testing::ElementsAre;

constexpr double kIntra = 100.0;
constexpr double kUplink = 40.0;
constexpr double kNic = 10.0;

Cluster TwoHosts() {
  Cluster cluster;
  cluster.gpus_per_node = 4;
  cluster.nodes = 2;
  cluster.intra = {"intra", kIntra, 1e-6};
  cluster.uplink = {"uplink", kUplink, 1e-6};
  cluster.inter = {"inter", kNic, 1e-5};
  return cluster;
}

TEST(Topology, TensorParallelRanksAreNeighboursAndReplicasFarthest) {
  const RankGrid grid{.dp = 2, .tp = 2, .pp = 2};
  EXPECT_THAT(TpGroups(grid),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3),
                          ElementsAre(4, 5), ElementsAre(6, 7)));
  EXPECT_THAT(DpGroups(grid),
              ElementsAre(ElementsAre(0, 4), ElementsAre(1, 5),
                          ElementsAre(2, 6), ElementsAre(3, 7)));
  EXPECT_THAT(StagePairs(grid, 0, 1),
              ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3),
                          ElementsAre(4, 6), ElementsAre(5, 7)));
}

TEST(Topology, HostsOfAGroupFollowFromTheRankOrder) {
  const Cluster cluster = TwoHosts();
  const auto hosts = [&](const RankGrid& grid) {
    return std::vector<int>{RingLink(cluster, DpGroups(grid)).hosts,
                            RingLink(cluster, TpGroups(grid)).hosts};
  };
  EXPECT_THAT(hosts({.dp = 2, .tp = 4, .pp = 1}), ElementsAre(2, 1));
  EXPECT_THAT(hosts({.dp = 1, .tp = 8, .pp = 1}), ElementsAre(1, 2));
  EXPECT_THAT(hosts({.dp = 8, .tp = 1, .pp = 1}), ElementsAre(2, 1));
}

TEST(Topology, AGroupIsCutUpByHostsAndByPlaces) {
  const Cluster cluster = TwoHosts();
  const std::vector<Group> dp = DpGroups({.dp = 4, .tp = 2, .pp = 1});
  EXPECT_THAT(WithinHosts(cluster, dp),
              ElementsAre(ElementsAre(0, 2), ElementsAre(4, 6),
                          ElementsAre(1, 3), ElementsAre(5, 7)));
  EXPECT_THAT(AcrossHosts(cluster, dp),
              ElementsAre(ElementsAre(0, 4), ElementsAre(2, 6),
                          ElementsAre(1, 5), ElementsAre(3, 7)));
  // Four rings cross each host's card.
  EXPECT_DOUBLE_EQ(
      RingLink(cluster, AcrossHosts(cluster, dp)).bandwidth_bytes_per_s,
      kNic / 4);
  const std::vector<Group> uneven = {{0, 1, 2, 4}};
  EXPECT_THROW((void)WithinHosts(cluster, uneven), std::invalid_argument);
}

// dp = 8 is one ring that enters each host once; dp = 2, tp = 4 are four rings
// through the same card.
TEST(Topology, GroupsShareTheCardOfTheirHost) {
  const Cluster cluster = TwoHosts();
  const auto bandwidth = [&](const RankGrid& grid) {
    return RingLink(cluster, DpGroups(grid)).bandwidth_bytes_per_s;
  };
  EXPECT_DOUBLE_EQ(bandwidth({.dp = 8, .tp = 1, .pp = 1}), kNic);
  EXPECT_DOUBLE_EQ(bandwidth({.dp = 4, .tp = 2, .pp = 1}), kNic / 2);
  EXPECT_DOUBLE_EQ(bandwidth({.dp = 2, .tp = 4, .pp = 1}), kNic / 4);
}

TEST(Topology, ManyCardsAreNotFasterThanTheGpusLink) {
  Cluster cluster = TwoHosts();
  cluster.nics_per_node = 100;
  EXPECT_DOUBLE_EQ(RingLink(cluster, DpGroups({.dp = 8, .tp = 1, .pp = 1}))
                       .bandwidth_bytes_per_s,
                   kIntra);
}

// Four cards per host; rings through two of its four GPUs use one of them.
TEST(Topology, RingsThroughSomeGpusOfAHostUseTheirCardsOnly) {
  Cluster cluster = TwoHosts();
  cluster.nics_per_node = 4;
  cluster.ring_nics = 1;
  const auto bandwidth = [&](const RankGrid& grid) {
    return RingLink(cluster, DpGroups(grid)).bandwidth_bytes_per_s;
  };
  EXPECT_DOUBLE_EQ(bandwidth({.dp = 8, .tp = 1, .pp = 1}), 4 * kNic);
  EXPECT_DOUBLE_EQ(bandwidth({.dp = 4, .tp = 2, .pp = 1}), kNic / 2);
  EXPECT_DOUBLE_EQ(bandwidth({.dp = 2, .tp = 4, .pp = 1}), kNic);
}

TEST(Topology, ASwitchIsCrossedOnlyBetweenSwitches) {
  Cluster cluster = TwoHosts();
  cluster.nodes = 1;
  cluster.gpus_per_switch = 2;
  const auto tensor = [&](const RankGrid& grid) {
    return RingLink(cluster, TpGroups(grid)).bandwidth_bytes_per_s;
  };
  EXPECT_DOUBLE_EQ(tensor({.dp = 2, .tp = 2, .pp = 1}), kIntra);
  EXPECT_DOUBLE_EQ(tensor({.dp = 1, .tp = 4, .pp = 1}), kUplink);
  // Two pairs, each from one switch to the other.
  EXPECT_DOUBLE_EQ(RingLink(cluster, DpGroups({.dp = 2, .tp = 2, .pp = 1}))
                       .bandwidth_bytes_per_s,
                   kUplink / 2);
}

TEST(Topology, WithoutPeerAccessEveryCopyCrossesTheUplinks) {
  Cluster cluster = TwoHosts();
  cluster.nodes = 1;
  cluster.gpus_per_switch = 2;
  cluster.peer_access = false;
  // Both GPUs of a switch send and receive through one uplink.
  EXPECT_DOUBLE_EQ(RingLink(cluster, TpGroups({.dp = 2, .tp = 2, .pp = 1}))
                       .bandwidth_bytes_per_s,
                   kUplink / 2);
}

TEST(Topology, HostsWithFewerGpusThanASwitchHaveASwitchEach) {
  Cluster cluster = TwoHosts();
  cluster.gpus_per_node = 2;
  cluster.gpus_per_switch = 4;
  cluster.peer_access = false;
  EXPECT_DOUBLE_EQ(RingLink(cluster, TpGroups({.dp = 2, .tp = 2, .pp = 1}))
                       .bandwidth_bytes_per_s,
                   kUplink / 2);
}

TEST(Topology, AMessageGoesOneWay) {
  const Cluster cluster = TwoHosts();
  const RankGrid grid{.dp = 1, .tp = 1, .pp = 8};
  EXPECT_DOUBLE_EQ(
      MessageLink(cluster, StagePairs(grid, 0, 1)).bandwidth_bytes_per_s,
      kIntra);
  const GroupLink across = MessageLink(cluster, StagePairs(grid, 3, 4));
  EXPECT_DOUBLE_EQ(across.bandwidth_bytes_per_s, kNic);
  EXPECT_EQ(across.hosts, 2);
}

// A hybrid cube mesh has a link to four of seven other GPUs.
TEST(Topology, AnAllToAllWithoutASwitchSharesALinkForDistantGpus) {
  Cluster cluster;
  cluster.gpus_per_node = 8;
  cluster.intra.bandwidth_bytes_per_s = 20e9;
  cluster.rings = {1, 2, 4, 4, 4, 4, 6};
  const auto bandwidth = [&](int gpus) {
    return AllToAllLink(cluster, EpGroups({.dp = gpus}, gpus))
        .bandwidth_bytes_per_s;
  };
  EXPECT_DOUBLE_EQ(bandwidth(2), 20e9);
  EXPECT_DOUBLE_EQ(bandwidth(4), 60e9);
  EXPECT_DOUBLE_EQ(bandwidth(8), 20e9 * 7 / 3);
}

// Two channels for every 20 GB/s, up to 24, each a multiprocessor; and the
// link's share of the memory bandwidth; at most everything.
TEST(Topology, CollectivesTakeMultiprocessorsAndMemoryBandwidth) {
  Gpu gpu;
  gpu.multiprocessors = 100;
  gpu.memory_bandwidth_bytes_per_s = 1e30;
  EXPECT_NEAR(OverlapSlowdown(gpu, 20e9), 0.02, 1e-9);
  EXPECT_NEAR(OverlapSlowdown(gpu, 21e9), 0.04, 1e-9);
  EXPECT_NEAR(OverlapSlowdown(gpu, 1e15), 0.24, 1e-9);
  gpu.memory_bandwidth_bytes_per_s = 400e9;
  EXPECT_NEAR(OverlapSlowdown(gpu, 20e9), 0.02 + 0.05, 1e-9);
  gpu.multiprocessors = 4;
  EXPECT_EQ(OverlapSlowdown(gpu, 1e15), 1.0);
}

// Two GPUs of a hybrid cube mesh may have two links between them; a GPU alone
// in its host reaches the card over all of its links.
TEST(Topology, WithoutASwitchLinksDependOnTheGpusOfAHost) {
  Cluster cluster = TwoHosts();
  cluster.inter.bandwidth_bytes_per_s = 1e9;
  cluster.rings = {2, 3, 6};
  EXPECT_DOUBLE_EQ(
      AllToAllLink(cluster, EpGroups({.dp = 2}, 2)).bandwidth_bytes_per_s,
      2 * kIntra);
  EXPECT_DOUBLE_EQ(RingLink(cluster, TpGroups({.tp = 2})).bandwidth_bytes_per_s,
                   2 * kIntra);
  EXPECT_DOUBLE_EQ(
      RingLink(cluster, DpGroups({.dp = 2, .tp = 4})).bandwidth_bytes_per_s,
      6 * kIntra);
}

}  // namespace trials::topology_test
