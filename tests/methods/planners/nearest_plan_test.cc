// Distances from plans, and the order of candidates by them.

#include "methods/planners/nearest_plan.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace methods::nearest_plan_test {

using testing::ElementsAre;
using trials::ParallelConfig;

std::vector<int> Order(const std::vector<ParallelConfig>& configs,
                       const std::vector<PlanSizes>& plans) {
  return NearestOrder(trials::SearchSpace(configs), plans);
}

TEST(NearestPlan, MicrobatchesOfASingleStageCountWhereGradientsAccumulate) {
  EXPECT_THAT(
      Order({{.dp = 4, .microbatches = 1}, {.dp = 4, .microbatches = 2}},
            {{.dp = 4, .microbatches = 2}}),
      ElementsAre(1, 1, 0));
}

// Otherwise 8 microbatches are as near to one stage as 1 is.
TEST(NearestPlan, MicrobatchesOfASingleStageAreTheFrameworksOtherwise) {
  EXPECT_THAT(Order({{.dp = 2, .pp = 2, .microbatches = 8},
                     {.dp = 4, .microbatches = 1}},
                    {{.dp = 4, .microbatches = 8}}),
              ElementsAre(1, 1, 0));
}

TEST(NearestPlan, OfEquallyNearCandidatesTheFirstIsTried) {
  EXPECT_THAT(Order({{.dp = 2, .pp = 2, .microbatches = 4},
                     {.dp = 4, .zero_stage = 1, .microbatches = 1},
                     {.dp = 4, .zero_stage = 2, .microbatches = 1}},
                    {{.dp = 4}}),
              ElementsAre(1, 1, 2, 0));
}

TEST(NearestPlan, EachPlanHasItsNearestThenAllFollowFromTheFirstPlan) {
  EXPECT_THAT(Order({{.dp = 8, .microbatches = 1},
                     {.dp = 4, .tp = 2, .microbatches = 1},
                     {.dp = 2, .tp = 4, .microbatches = 1}},
                    {{.dp = 8}, {.dp = 2, .tp = 4}}),
              ElementsAre(0, 2, 0, 1, 2));
}

// 2^(3 / 4) = 1.68 ranks on average, and half of the operators recompute.
TEST(NearestPlan, SizesAreMeansOfTheLogarithmsOverOperators) {
  methods::OperatorPlan plan;
  plan.micro_batch = 4;
  plan.first = {0, 2, 4};
  plan.choices = {{0, 1, 0, 0}, {0, 1, 0, 0}, {0, 1, 0, 1}, {3, 1, 0, 1}};
  const PlanSizes sizes = SizesOf(plan, 32);
  EXPECT_NEAR(sizes.tp, 1.681792830507429, 1e-12);
  EXPECT_NEAR(sizes.dp, 2.0, 1e-12);
  EXPECT_EQ(sizes.pp, 2.0);
  EXPECT_EQ(sizes.microbatches, 8.0);
  EXPECT_TRUE(sizes.recomputes);
  plan.choices[3].recomputed = 0;
  EXPECT_FALSE(SizesOf(plan, 32).recomputes);
}

// Doubled dp, halved tp, 4 times pp, 8 times the microbatches and
// recomputation: 1 + 1 + 2 + 3 + 1.
TEST(NearestPlan, DistanceIsTheSumOfDoublingsAndOfRecomputation) {
  const PlanSizes plan{.dp = 2, .tp = 4, .pp = 2, .microbatches = 8};
  const ParallelConfig config{.dp = 4,
                              .tp = 2,
                              .pp = 8,
                              .microbatches = 64,
                              .grad_checkpoint = trials::kRecomputeFull};
  EXPECT_EQ(Distance(plan, config, false), 8.0);
  PlanSizes recomputing = plan;
  recomputing.recomputes = true;
  EXPECT_EQ(Distance(recomputing, config, false), 7.0);
  // Of a single stage, microbatches count where gradients accumulate.
  ParallelConfig single = config;
  single.pp = 1;
  EXPECT_EQ(Distance(plan, single, false), 4.0);
  EXPECT_EQ(Distance(plan, single, true), 7.0);
  ParallelConfig two = config;
  two.pp = 2;
  EXPECT_EQ(Distance(plan, two, false), 6.0);
}

// Only with several numbers of GPUs: those that fit first, then by time.
TEST(NearestPlan, PlansForSeveralNumbersOfGpusAreOrderedByTime) {
  const std::vector<RankedPlan> plans = {{{.dp = 1}, false, 1.0},
                                         {{.dp = 2}, true, 3.0},
                                         {{.dp = 3}, true, 2.0},
                                         {{.dp = 4}, true, 3.0},
                                         {{.dp = 5}, false, 0.5}};
  const auto order = [&](const Problem& problem) {
    std::vector<double> dp;
    for (const PlanSizes& sizes : InOrder(problem, plans)) {
      dp.push_back(sizes.dp);
    }
    return dp;
  };
  Problem problem;
  EXPECT_THAT(order(problem), ElementsAre(1, 2, 3, 4, 5));
  problem.sizes.resize(2);
  EXPECT_THAT(order(problem), ElementsAre(3, 2, 4, 5, 1));
}

}  // namespace methods::nearest_plan_test
