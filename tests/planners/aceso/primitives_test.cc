#include "planners/aceso/primitives.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/planners/aceso/small_model.h"

namespace planners::primitives_test {

using testing::ElementsAre;
using Kind = PrimitiveKind;

std::vector<int> GpusOf(const OperatorPlan& plan) {
  std::vector<int> gpus;
  for (int stage = 0; stage < plan.stages(); ++stage) {
    gpus.push_back(plan.GpusOf(stage));
  }
  return gpus;
}

std::optional<OperatorPlan> After(const OperatorModel& model,
                                  const CostedPlan& from, int stage,
                                  Kind kind) {
  std::int64_t explored = 0;
  const auto next = Apply(model, from, stage, kind, explored);
  return next ? std::optional(next->plan) : std::nullopt;
}

// Table 1's signs; a plan that does not fit has one group, those that save
// memory.
TEST(PrimitiveGroups, AreSortedByTheStagesShareOfEachResource) {
  const OperatorModel model = SmallModel(2, 2, 100.0);
  PlanCost cost;
  cost.memory_mb = 100.0;
  cost.stages.resize(2);
  // Shares of the first stage: 1/2 of the computation, (2 + 1) / 10 of the
  // communication and all of the recomputation.
  cost.stages[0] = {
      .compute_ms = 12, .recompute_ms = 1, .communicate_ms = 1, .ideal_ms = 10};
  cost.stages[1] = {.compute_ms = 9, .communicate_ms = 7, .ideal_ms = 10};
  EXPECT_THAT(
      PrimitiveGroups(model, cost, 0),
      ElementsAre(
          ElementsAre(Kind::kDecOperators, Kind::kDecMicroBatch, Kind::kIncDp,
                      Kind::kIncTp, Kind::kIncRecomputation),
          ElementsAre(Kind::kIncMicroBatch, Kind::kDecRecomputation),
          ElementsAre(Kind::kDecDp, Kind::kDecTp),
          ElementsAre(Kind::kIncOperators)));
  // Of the second: 1/2, 7/10 and nothing.
  EXPECT_THAT(
      PrimitiveGroups(model, cost, 1),
      ElementsAre(
          ElementsAre(Kind::kDecDp, Kind::kDecTp),
          ElementsAre(Kind::kDecOperators, Kind::kIncMicroBatch, Kind::kIncDp,
                      Kind::kIncTp, Kind::kDecRecomputation),
          ElementsAre(Kind::kDecMicroBatch, Kind::kIncRecomputation),
          ElementsAre(Kind::kIncOperators)));
  // Lost efficiency counts as communication: 8/14 of the first stage.
  cost.stages[0].compute_ms = 17;
  EXPECT_THAT(PrimitiveGroups(model, cost, 0)[1],
              ElementsAre(Kind::kDecDp, Kind::kDecTp));
  cost.memory_mb = 101.0;
  EXPECT_THAT(PrimitiveGroups(model, cost, 1),
              ElementsAre(ElementsAre(Kind::kDecOperators, Kind::kDecMicroBatch,
                                      Kind::kIncDp, Kind::kIncTp,
                                      Kind::kIncRecomputation)));
}

TEST(BottlenecksOf, AreTheSlowestOrWhereMemoryIsExceededTheFullestFirst) {
  PlanCost cost;
  cost.stages.resize(3);
  cost.stages[0].memory_mb = 200.0;
  cost.stages[1].memory_mb = 100.0;
  cost.stages[2].memory_mb = 300.0;
  cost.stage_iteration_ms = {1.0, 3.0, 2.0};
  cost.memory_mb = 300.0;
  EXPECT_THAT(BottlenecksOf(SmallModel(2, 3, 299.0), cost),
              ElementsAre(2, 0, 1));
  EXPECT_THAT(BottlenecksOf(SmallModel(2, 3, 300.0), cost),
              ElementsAre(1, 2, 0));
}

// Whatever is applied to whatever stage.
TEST(Primitives, KeepAllGpusAndOperatorsInStagesThatAreProfiled) {
  const OperatorModel model = SmallModel(6, 8, 250.0);
  std::vector<OperatorPlan> plans = {
      PlanOfStages(model, 4, {{0, 1, 1}, {7, 0, 1}, {13, 1, 0}}),
      PlanOfStages(model, 4, {{0, 0, 0}, {5, 0, 1}, {10, 1, 1}, {14, 0, 0}})};
  std::size_t applied = 0;
  for (std::size_t i = 0; i < plans.size() && i < 200; ++i) {
    const CostedPlan from = Costed(model, plans[i]);
    for (int stage = 0; stage < from.plan.stages(); ++stage) {
      for (const Primitive& primitive : Primitives()) {
        const auto next = After(model, from, stage, primitive.kind);
        if (!next) {
          continue;
        }
        ++applied;
        const std::vector<int> gpus = GpusOf(*next);
        EXPECT_EQ(std::accumulate(gpus.begin(), gpus.end(), 0), 8);
        EXPECT_TRUE(std::is_sorted(next->first.begin(), next->first.end(),
                                   std::less_equal<>()));
        EXPECT_EQ(next->first.front(), 0);
        EXPECT_EQ(next->first.back(), model.operators());
        EXPECT_EQ(64 % next->micro_batch, 0);
        EXPECT_TRUE(std::isfinite(model.Cost(*next).iteration_ms))
            << static_cast<int>(primitive.kind);
        if (std::find(plans.begin(), plans.end(), *next) == plans.end()) {
          plans.push_back(*next);
        }
      }
    }
  }
  EXPECT_GT(applied, 500u);
}

}  // namespace planners::primitives_test
