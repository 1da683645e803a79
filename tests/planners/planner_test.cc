// The order of proposals, distances from plans, and estimates.

#include "planners/planner.h"

#include <cstdint>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"

namespace planners::planner_test {

using testing::ElementsAre;
using trials::ParallelConfig;

// Proposes these for the largest number of GPUs, and estimates 1 s per GPU.
struct FakePlanner final : Planner {
  std::vector<Proposal> proposals;

  [[nodiscard]] std::vector<Proposal> Plans(
      const methods::Problem& part, std::uint64_t /*seed*/) const override {
    return part.machine.gpus() == 4 ? proposals : std::vector<Proposal>();
  }
  [[nodiscard]] Estimator EstimatorOf(
      const methods::Problem& part) const override {
    return [gpus = part.machine.gpus()](const ParallelConfig& config) {
      return Estimate{1.0 * gpus, 10.0 * config.tp};
    };
  }
};

// The candidates of all trials.
std::vector<int> Order(const std::vector<ParallelConfig>& configs,
                       const std::vector<MeanSizes>& plans,
                       std::vector<int> sizes = {}) {
  const trials::SearchSpace space(configs);
  const methods::Problem problem{.space = &space,
                                 .machine = {{.gpus = 4}, std::move(sizes)}};
  FakePlanner planner;
  for (const MeanSizes& plan : plans) {
    const int tier = &plan == &plans.back() ? 0 : 1;  // the last one fits
    planner.proposals.push_back({plan, tier, plan.dp});
  }
  const auto method = TryPlans(problem, planner, 1);
  std::vector<int> order;
  while (const auto suggestion = method->Suggest()) {
    order.push_back(suggestion->candidate);
    method->Observe({.candidate = suggestion->candidate,
                     .config = configs[suggestion->candidate]});
  }
  return order;
}

TEST(Planner, MicrobatchesOfASingleStageCountWhereGradientsAccumulate) {
  EXPECT_THAT(
      Order({{.dp = 4, .microbatches = 1}, {.dp = 4, .microbatches = 2}},
            {{.dp = 4, .microbatches = 2}}),
      ElementsAre(1, 0));
}

// Otherwise 8 microbatches are as near to one stage as 1 is.
TEST(Planner, MicrobatchesOfASingleStageAreTheFrameworksOtherwise) {
  EXPECT_THAT(Order({{.dp = 2, .pp = 2, .microbatches = 8},
                     {.dp = 4, .microbatches = 1}},
                    {{.dp = 4, .microbatches = 8}}),
              ElementsAre(1, 0));
}

TEST(Planner, OfEquallyNearCandidatesTheFirstIsTried) {
  EXPECT_THAT(Order({{.dp = 2, .pp = 2, .microbatches = 4},
                     {.dp = 4, .zero_stage = 1, .microbatches = 1},
                     {.dp = 4, .zero_stage = 2, .microbatches = 1}},
                    {{.dp = 4}}),
              ElementsAre(1, 2, 0));
}

TEST(Planner, EachPlanHasItsNearestThenAllFollowFromTheFirstPlan) {
  EXPECT_THAT(Order({{.dp = 8, .microbatches = 1},
                     {.dp = 4, .tp = 2, .microbatches = 1},
                     {.dp = 2, .tp = 4, .microbatches = 1}},
                    {{.dp = 8}, {.dp = 2, .tp = 4}}),
              ElementsAre(0, 2, 1));
}

// 2^(3 / 4) = 1.68 ranks on average, and half of the operators recompute.
TEST(Planner, SizesAreMeansOfTheLogarithmsOverOperators) {
  OperatorPlan plan;
  plan.micro_batch = 4;
  plan.first = {0, 2, 4};
  plan.choices = {{0, 1, 0, 0}, {0, 1, 0, 0}, {0, 1, 0, 1}, {3, 1, 0, 1}};
  const MeanSizes sizes = SizesOf(plan, 32);
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
TEST(Planner, DistanceIsTheSumOfDoublingsAndOfRecomputation) {
  const MeanSizes plan{.dp = 2, .tp = 4, .pp = 2, .microbatches = 8};
  const ParallelConfig config{.dp = 4,
                              .tp = 2,
                              .pp = 8,
                              .microbatches = 64,
                              .grad_checkpoint = trials::kRecomputeFull};
  EXPECT_EQ(Distance(plan, config, false), 8.0);
  MeanSizes recomputing = plan;
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

// The first of three plans needs too much memory, and is the fastest.
TEST(Planner, PlansForSeveralNumbersOfGpusAreOrderedByMemoryThenTime) {
  const std::vector<ParallelConfig> configs = {{.dp = 1}, {.dp = 2}, {.dp = 4}};
  const std::vector<MeanSizes> plans = {{.dp = 4}, {.dp = 1}, {.dp = 2}};
  EXPECT_THAT(Order(configs, plans), ElementsAre(2, 0, 1));
  // Each plan is one for 2 and one for 4 GPUs, and tried on as many.
  EXPECT_THAT(Order(configs, plans, {2, 4}), ElementsAre(2, 1, 0));
}

TEST(Planner, CandidatesAreTriedAsTheyAreAndOnlyOnTheirNumberOfGpus) {
  const trials::SearchSpace space({{.dp = 2}, {.dp = 4}, {.tp = 4}});
  methods::Problem problem{.space = &space,
                           .machine = trials::GpuType{.gpus = 4}};
  FakePlanner planner;
  planner.proposals = {{0}, {2}, {1}};
  EXPECT_EQ(TryPlans(problem, planner, 1)->Suggest()->candidate, 0);
  problem.machine = {{.gpus = 4}, {2, 4}};
  EXPECT_EQ(TryPlans(problem, planner, 1)->Suggest()->candidate, 2);
  EXPECT_THROW((void)TryPlans(problem, FakePlanner(), 1), common::InputError);
}

TEST(Planner, EstimatesACandidateOnItsNumberOfGpus) {
  const trials::SearchSpace space(
      {{.dp = 1}, {.dp = 2}, {.tp = 2}, {.dp = 2, .tp = 2}});
  methods::Problem problem{.space = &space,
                           .machine = trials::GpuType{.gpus = 4}};
  EXPECT_THAT(EstimatesOf(problem, FakePlanner()).step_time_s,
              ElementsAre(4.0, 4.0, 4.0, 4.0));
  problem.machine = {{.gpus = 4}, {1, 2, 4}};
  const trials::Predictions sized = EstimatesOf(problem, FakePlanner());
  EXPECT_THAT(sized.step_time_s, ElementsAre(1.0, 2.0, 2.0, 4.0));
  EXPECT_THAT(sized.peak_memory_bytes, ElementsAre(10.0, 10.0, 20.0, 20.0));
}

}  // namespace planners::planner_test
