// Local moves on plans, and the plans that they suggest.

#include "planners/plan_moves.h"

#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "tests/fakes/decoders.h"
#include "tests/fakes/grid.h"
#include "tests/methods/trials.h"

namespace planners::plan_moves_test {

using trials::Plan;

class PlanMovesTest : public testing::Test {
 protected:
  PlanMovesTest() {
    problem_.space = &space_;
    problem_.machine = trials::Machine(
        {{"slow", 8, 8, 80e9, 312e12}, {"fast", 8, 8, 80e9, 936e12}});
    problem_.workload = &workload_;
    problem_.runs_plans = true;
  }

  trials::Workload workload_ = fakes::Decoder{}.Workload();
  trials::SearchSpace space_{fakes::Grid({{"tp", {1, 2}},
                                          {"pp", {2, 4}},
                                          {"microbatches", {4, 8}},
                                          {"grad_checkpoint", {0, 1}}},
                                         {}, 16)};
  methods::Problem problem_;
};

TEST_F(PlanMovesTest, EveryMoveCanRunAndDiffersInStages) {
  const Plan from = PlanOfCandidate(problem_, space_[0]);
  const std::vector<Plan> moves = MovesFrom(from, problem_);
  bool moves_layers = false;
  bool recomputes_some = false;
  for (const Plan& plan : moves) {
    EXPECT_NO_THROW(CheckPlan(plan, workload_, problem_.machine.GpusByType()));
    moves_layers = moves_layers || plan.layers != from.layers;
    const int recomputed = plan.stages[0].recomputed_layers;
    recomputes_some =
        recomputes_some || (recomputed > 0 && recomputed < plan.layers[0]);
  }
  EXPECT_TRUE(moves_layers);
  EXPECT_TRUE(recomputes_some);
}

TEST_F(PlanMovesTest, WithoutFullRecomputationInTheSpaceNoMoveRecomputes) {
  const trials::SearchSpace space(
      fakes::Grid({{"pp", {2}}, {"microbatches", {8}}}, {}, 16));
  problem_.space = &space;
  for (const Plan& plan :
       MovesFrom(PlanOfCandidate(problem_, space[0]), problem_)) {
    EXPECT_EQ(plan.stages[0].recomputed_layers, 0);
  }
}

TEST_F(PlanMovesTest, ThePlanAfterEqualStagesHasMoreLayersOnFasterGpus) {
  PlanMoves moves(problem_);
  methods::History history(space_.size());
  history.Add(MakeTrial(1, space_[1], tests::OutOfMemory()));
  EXPECT_FALSE(moves.Suggest(history, {})) << "no throughput yet";
  history.Add(MakeTrial(0, space_[0], tests::Completed(1.0, 20e9)));
  const std::optional<methods::Suggestion> move = moves.Suggest(history, {});
  ASSERT_TRUE(move && move->outside);
  Plan plan;
  FromText(move->outside->Label(), plan);
  int difference = 0;
  for (int s = 0; s < plan.shared.pp; ++s) {
    difference +=
        StageLayers(plan, s) * (plan.stages[s].gpu_type == 1 ? 1 : -1);
  }
  EXPECT_GT(difference, 0);
}

TEST_F(PlanMovesTest, NoPlanReplacesASuggestionThatPromisesMore) {
  PlanMoves moves(problem_);
  methods::History history(space_.size());
  history.Add(MakeTrial(0, space_[0], tests::Completed(1.0, 20e9)));
  ASSERT_TRUE(moves.Suggest(history, {}));
  methods::Suggestion better{.candidate = 1};
  better.fits.push_back({"choice",
                         {.parameters = {{"acquisition", 0.0},
                                         {"throughput_mean", 100.0},
                                         {"throughput_variance", 1.0},
                                         {"memory_mean", 0.1},
                                         {"memory_variance", 0.01}}}});
  EXPECT_FALSE(moves.Suggest(history, better));
}

}  // namespace planners::plan_moves_test
