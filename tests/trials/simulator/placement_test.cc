#include "trials/simulator/placement.h"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/trials/simulator/problem.h"

namespace trials::placement_test {

Cluster Hosts(int nodes, int gpus_per_node = 4) {
  Cluster cluster = SmallCluster();
  cluster.nodes = nodes;
  cluster.gpus_per_node = gpus_per_node;
  return cluster;
}

void ExpectSame(const GroupLink& a, const GroupLink& b) {
  EXPECT_EQ(a.size, b.size);
  EXPECT_EQ(a.hosts, b.hosts);
  EXPECT_EQ(a.bandwidth_bytes_per_s, b.bandwidth_bytes_per_s);
}

// Looking at a few replicas gives what looking at all of them does.
void ExpectNetworkOfAllReplicas(const RankGrid& grid, int gpus_per_node) {
  SCOPED_TRACE(testing::Message()
               << "dp=" << grid.dp << ",tp=" << grid.tp << ",pp=" << grid.pp
               << ",cp=" << grid.cp << " on " << gpus_per_node);
  const std::vector<Cluster> gpu_types = {
      Hosts((grid.size() + gpus_per_node - 1) / gpus_per_node, gpus_per_node)};
  const PlanLinks links = PlaceGrid(
      gpu_types, {.dp = grid.dp, .tp = grid.tp, .pp = grid.pp, .cp = grid.cp});
  const StageLinks& stage = links.stages.back();
  ExpectSame(stage.dp, RingLink(gpu_types[0], DpGroups(grid)));
  ExpectSame(stage.tp, RingLink(gpu_types[0], TpGroups(grid)));
  ExpectSame(stage.cp, RingLink(gpu_types[0], CpGroups(grid)));
  for (int s = 0; grid.pp > 1 && s < grid.pp; ++s) {
    const int next = (s + 1) % grid.pp;
    ExpectSame(links.forward[s],
               MessageLink(gpu_types[0], StagePairs(grid, s, next)));
    ExpectSame(links.backward[s],
               MessageLink(gpu_types[0], StagePairs(grid, next, s)));
    ExpectSame(links.ends,
               RingLink(gpu_types[0], StagePairs(grid, 0, grid.pp - 1)));
  }
}

TEST(Placement, RepresentativesSeeTheNetworkOfAllReplicas) {
  for (const int dp : {2, 8, 12, 15}) {
    for (const int tp : {1, 2, 3, 4}) {
      for (const int pp : {1, 2, 3}) {
        for (const int cp : {1, 2, 5}) {
          ExpectNetworkOfAllReplicas({dp, tp, pp, cp}, 4);
          ExpectNetworkOfAllReplicas({dp, tp, pp, cp}, 8);
        }
      }
    }
  }
}

// A replica of 16 ranks begins at nine places of racks of 72.
TEST(Placement, RepresentativesSeeTheNetworkOfRacksThatReplicasDoNotFill) {
  for (const RankGrid& grid :
       {RankGrid{180, 16, 1, 1}, RankGrid{47, 8, 2, 1}, RankGrid{29, 4, 5, 4},
        RankGrid{41, 1, 100, 1}, RankGrid{101, 3, 1, 2}}) {
    ExpectNetworkOfAllReplicas(grid, 72);
    ExpectNetworkOfAllReplicas(grid, 6);
  }
}

// Pipeline outermost: stages begin at several places of a rack.
TEST(Placement, EveryStageHasTheLinksOfItsPlaceInTheRack) {
  for (const int dp : {5, 24, 60, 100}) {
    const std::vector<Cluster> gpu_types = {Hosts(2 * dp, 72)};
    const PlanLinks links =
        PlaceGrid(gpu_types, {.dp = dp, .tp = 4, .pp = 12, .cp = 2},
                  {.pipeline_outermost = true});
    for (int s = 0; s < 12; ++s) {
      std::vector<Group> groups = DpGroups({dp, 4, 1, 2});
      for (Group& group : groups) {
        for (int& rank : group) {
          rank += s * dp * 8;
        }
      }
      SCOPED_TRACE(testing::Message() << "dp=" << dp << ", stage " << s);
      ExpectSame(links.stages[s].dp, RingLink(gpu_types[0], groups));
    }
  }
}

// Whole experts: groups of successive ranks of a stage, whatever their tp.
TEST(Placement, ExpertsAreOverSuccessiveReplicasOrRanks) {
  const std::vector<Cluster> hosts = {Hosts(32)};
  for (const auto& [whole, text] : {std::pair(false, "dp=16,tp=2,ep=4"),
                                    {false, "dp=16,tp=2,ep=2,pp=2"},
                                    {false, "dp=24,cp=2,ep=3"},
                                    {false, "dp=12,tp=3,ep=4"},
                                    {true, "dp=16,tp=2,ep=32"},
                                    {true, "dp=16,tp=4,ep=2,pp=2"},
                                    {true, "dp=12,cp=2,tp=2,ep=6"},
                                    {true, "dp=6,tp=4,ep=12"}}) {
    SCOPED_TRACE(text);
    const ParallelConfig config = ParseParallelConfig(text);
    const RankGrid grid{config.dp, config.tp, config.pp, config.cp};
    const StageLinks links =
        PlacePlan(hosts, UniformPlan(config, 8), {.whole_experts = whole})
            .stages.front();
    EXPECT_EQ(links.ep.size, config.ep);
    ExpectSame(links.ep,
               AllToAllLink(hosts[0], EpGroups(grid, config.ep, whole)));
    ExpectSame(links.expert_dp,
               RingLink(hosts[0], ExpertDpGroups(grid, config.ep, whole)));
  }
}

TEST(Placement, StagesThatDifferStandOneAfterTheOther) {
  Plan plan = UniformPlan(ParseParallelConfig("pp=3"), 6);
  plan.stages[0] = {.dp = 1, .tp = 4};
  plan.stages[1] = {.dp = 2, .tp = 1};
  plan.stages[2] = {.dp = 2, .tp = 1};
  const std::vector<Cluster> gpu_types = {Hosts(2)};
  const PlanLinks links = PlacePlan(gpu_types, plan);
  EXPECT_EQ(links.stages[0].first_rank, 0);
  EXPECT_EQ(links.stages[1].first_rank, 4);
  EXPECT_EQ(links.stages[2].first_rank, 6);
  EXPECT_EQ(links.forward_resharding[0].received_share,
            0.5);  // of two replicas
  EXPECT_EQ(links.backward_resharding[0].received_share, 1.0);
  EXPECT_EQ(links.forward_resharding[1].received_share, 0.0);  // equal stages
  EXPECT_EQ(links.forward[0].hosts, 2);  // host 0 to host 1
  EXPECT_EQ(links.forward[1].hosts, 1);  // both on host 1
  EXPECT_GT(links.forward[1].bandwidth_bytes_per_s,
            links.forward[0].bandwidth_bytes_per_s);
}

// All four GPUs of a host send at once, through two cards.
TEST(Placement, GpusOfAStageShareTheCardsOfTheirHost) {
  Cluster cluster = Hosts(4);
  cluster.nics_per_node = 2;
  cluster.intra.latency_s = 1e-6;
  const std::vector<Cluster> gpu_types = {cluster};
  const auto forward = [&](int dp) {
    return PlaceGrid(gpu_types, {.dp = dp, .pp = 2},
                     {.pipeline_outermost = true})
        .forward[0];
  };
  EXPECT_EQ(forward(4).size, 2);
  EXPECT_EQ(forward(4).hosts, 2);
  EXPECT_DOUBLE_EQ(forward(4).bandwidth_bytes_per_s, 2 * 3e9 / 4);
  EXPECT_DOUBLE_EQ(forward(8).bandwidth_bytes_per_s, 2 * 3e9 / 4);
  EXPECT_DOUBLE_EQ(forward(4).inter_latency_s, 30e-6);
  EXPECT_EQ(forward(2).size, 2);
  EXPECT_EQ(forward(2).hosts, 1);
  EXPECT_DOUBLE_EQ(forward(2).bandwidth_bytes_per_s, 20e9);
  EXPECT_DOUBLE_EQ(forward(2).intra_latency_s, 1e-6);
  // Without a switch, a GPU reaches another over one link, and its card over
  // all of them.
  Cluster rings = cluster;
  rings.rings = {1, 3, 6};
  rings.inter.bandwidth_bytes_per_s = 1e15;
  const std::vector<Cluster> v100 = {rings};
  const auto message = [&](int dp) {
    return PlaceGrid(v100, {.dp = dp, .pp = 2}, {.pipeline_outermost = true})
        .forward[0]
        .bandwidth_bytes_per_s;
  };
  EXPECT_DOUBLE_EQ(message(2), 20e9);
  EXPECT_DOUBLE_EQ(message(4), 120e9);
}

TEST(Placement, BetweenTwoGpuTypesTheSlowerNetworkCounts) {
  std::vector<Cluster> gpu_types = {Hosts(1), Hosts(1)};
  gpu_types[1].inter.bandwidth_bytes_per_s = 1e9;
  gpu_types[1].inter.latency_s = 50e-6;
  gpu_types[1].intra.latency_s = 9e-6;
  Plan plan = UniformPlan(ParseParallelConfig("pp=2"), 8);
  plan.stages[1].gpu_type = 1;
  const PlanLinks links = PlacePlan(gpu_types, plan);
  for (const GroupLink& link : {links.forward[0], links.backward[0]}) {
    EXPECT_EQ(link.size, 2);
    EXPECT_EQ(link.hosts, 2);
    EXPECT_EQ(link.bandwidth_bytes_per_s, 1e9);
    EXPECT_EQ(link.inter_latency_s, 50e-6);
    EXPECT_EQ(link.intra_latency_s, 9e-6);
  }
}

}  // namespace trials::placement_test
