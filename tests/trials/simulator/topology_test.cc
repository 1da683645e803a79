#include "trials/simulator/topology.h"

#include <functional>
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

TEST(Topology, AGroupIsCutUpByHostsOrBySize) {
  const Cluster cluster = TwoHosts();
  const std::vector<Group> dp = DpGroups({.dp = 4, .tp = 2, .pp = 1});
  for (const Parts& parts : {CutByHost(cluster, dp), CutBySize(2, dp)}) {
    EXPECT_THAT(parts.within,
                ElementsAre(ElementsAre(0, 2), ElementsAre(4, 6),
                            ElementsAre(1, 3), ElementsAre(5, 7)));
    EXPECT_THAT(parts.across,
                ElementsAre(ElementsAre(0, 4), ElementsAre(2, 6),
                            ElementsAre(1, 5), ElementsAre(3, 7)));
    // Four rings cross each host's card.
    EXPECT_DOUBLE_EQ(RingLink(cluster, parts.across).bandwidth_bytes_per_s,
                     kNic / 4);
  }
  const std::vector<Group> uneven = {{0, 1, 2, 4}};
  EXPECT_THROW((void)CutByHost(cluster, uneven), std::invalid_argument);
}

// Two hosts of four GPUs and one card, in which rings share what they cross.
struct Ring {
  const char* claim;
  std::function<void(Cluster&)> change;
  RankGrid grid;
  std::vector<Group> (*groups)(const RankGrid& grid);
  double bytes_per_s;
  int hosts;
};

TEST(Topology, ARingHasItsShareOfItsSlowestEdge) {
  const auto one_host = [](bool peer_access) {
    return [peer_access](Cluster& cluster) {
      cluster.nodes = 1;
      cluster.gpus_per_switch = 2;
      cluster.peer_access = peer_access;
    };
  };
  const auto some_cards = [](Cluster& cluster) {
    cluster.nics_per_node = 4;
    cluster.ring_nics = 1;
  };
  const auto nothing = [](Cluster&) {};
  const std::vector<Ring> rings = {
      {"a ring enters each host once", nothing, {8, 1}, DpGroups, kNic, 2},
      {"two share a card", nothing, {4, 2}, DpGroups, kNic / 2, 2},
      {"four share a card", nothing, {2, 4}, DpGroups, kNic / 4, 2},
      {"within a host", nothing, {2, 4}, TpGroups, kIntra, 1},
      {"through both hosts", nothing, {1, 8}, TpGroups, kNic, 2},
      {"cards are not faster than the GPUs' links",
       [](Cluster& cluster) { cluster.nics_per_node = 100; },
       {8, 1},
       DpGroups,
       kIntra,
       2},
      {"all GPUs, all cards", some_cards, {8, 1}, DpGroups, 4 * kNic, 2},
      {"some GPUs, one card", some_cards, {4, 2}, DpGroups, kNic / 2, 2},
      {"one GPU, all cards", some_cards, {2, 4}, DpGroups, kNic, 2},
      {"behind a switch", one_host(true), {2, 2}, TpGroups, kIntra, 1},
      {"between switches", one_host(true), {1, 4}, TpGroups, kUplink, 1},
      {"both switches", one_host(true), {2, 2}, DpGroups, kUplink / 2, 1},
      {"no peer access", one_host(false), {2, 2}, TpGroups, kUplink / 2, 1},
      {"hosts smaller than a switch",
       [](Cluster& cluster) {
         cluster.gpus_per_node = 2;
         cluster.gpus_per_switch = 4;
         cluster.peer_access = false;
       },
       {2, 2},
       TpGroups,
       kUplink / 2,
       1}};
  for (const Ring& ring : rings) {
    Cluster cluster = TwoHosts();
    ring.change(cluster);
    const GroupLink link = RingLink(cluster, ring.groups(ring.grid));
    EXPECT_DOUBLE_EQ(link.bandwidth_bytes_per_s, ring.bytes_per_s)
        << ring.claim;
    EXPECT_EQ(link.hosts, ring.hosts) << ring.claim;
  }
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
