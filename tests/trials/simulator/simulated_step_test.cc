#include "trials/simulator/simulated_step.h"

#include <algorithm>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "tests/trials/simulator/problem.h"
#include "trials/simulator/simulator.h"

namespace trials::simulated_step_test {

std::vector<ParallelConfig> Configs() {
  ParallelConfig data{.dp = 8, .zero_stage = 1, .microbatches = 4};
  ParallelConfig pipeline{.dp = 2, .tp = 2, .pp = 2, .microbatches = 8};
  ParallelConfig chunks = pipeline;
  chunks.model_chunks = 2;
  ParallelConfig recomputed = pipeline;
  recomputed.grad_checkpoint = kRecomputeFull;
  return {data, pipeline, chunks, recomputed};
}

TEST(SimulatedStep, EndsWithTheReportOfTheSimulation) {
  const Simulator simulator(SmallWorkload(), SmallCluster());
  for (const ParallelConfig& config : Configs()) {
    SCOPED_TRACE(ToString(config));
    const StepReport report = simulator.Simulate(config);
    const SimulatedStep step = simulator.Record(config);
    EXPECT_EQ(step.report, report);
    ASSERT_EQ(static_cast<int>(step.stages.size()), config.pp);
    double longest_s = 0.0;
    double fullest_bytes = 0.0;
    for (const SimulatedStage& stage : step.stages) {
      const AfterPipeline& after = stage.after;
      const double end_s = stage.actions.back().free_s + after.wait_s +
                           after.reduce_s + after.optimizer_s + after.gather_s +
                           after.overhead_s;
      EXPECT_NEAR(end_s, stage.time.Total(), 1e-9 * end_s);
      longest_s = std::max(longest_s, end_s);
      fullest_bytes = std::max(fullest_bytes, stage.memory.Total());
    }
    EXPECT_NEAR(longest_s, report.step_time_s, 1e-9 * longest_s);
    EXPECT_EQ(fullest_bytes, report.peak_memory_bytes);
    EXPECT_EQ(step.stages[step.critical_stage].time, report.time);
  }
}

TEST(SimulatedStep, RecordsActionsAsLongAsTheirParts) {
  const Simulator simulator(SmallWorkload(), SmallCluster());
  for (const ParallelConfig& config : Configs()) {
    for (const SimulatedStage& stage : simulator.Record(config).stages) {
      for (const ActionRecord& one : stage.actions) {
        const double parts_s =
            (one.action.forward ? stage.forward
                                : stage.backward)[one.action.chunk]
                .Total();
        EXPECT_NEAR(one.end_s - one.begin_s, parts_s, 1e-9 * one.end_s);
      }
    }
  }
}

// The ranks of all groups, each as often as it occurs.
std::multiset<int> RanksOf(const std::vector<Group>& groups) {
  std::multiset<int> ranks;
  for (const Group& group : groups) {
    ranks.insert(group.begin(), group.end());
  }
  return ranks;
}

TEST(GroupsOf, EveryRankIsInOneGroupOfEachDimension) {
  const StageGrid grid{.dp = 4, .tp = 2, .pp = 3, .cp = 2, .ep = 2};
  std::multiset<int> all;
  for (int rank = 0; rank < 4 * 2 * 3 * 2; ++rank) {
    all.insert(rank);
  }
  for (const bool outermost : {false, true}) {
    const PlacedGroups groups =
        GroupsOf(grid, {.pipeline_outermost = outermost});
    for (const auto& [some, size] :
         {std::pair(groups.tp, 2), std::pair(groups.cp, 2),
          std::pair(groups.pp, 3), std::pair(groups.dp, 8),
          std::pair(groups.ep, 2)}) {
      EXPECT_EQ(RanksOf(some), all);
      for (const Group& group : some) {
        EXPECT_EQ(static_cast<int>(group.size()), size);
      }
    }
    // A pipeline passes through the first rank of every stage of the links.
    const PlanLinks links = PlaceGrid(std::vector<Cluster>{[] {
                                        Cluster cluster = SmallCluster();
                                        cluster.nodes = 12;
                                        return cluster;
                                      }()},
                                      grid, {.pipeline_outermost = outermost});
    Group first;
    for (const StageLinks& stage : links.stages) {
      first.push_back(stage.first_rank);
    }
    EXPECT_EQ(groups.pp.front(), first);
  }
}

}  // namespace trials::simulated_step_test
