#include "methods/planners/aceso/primitives.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/methods/planners/aceso/small_model.h"

namespace methods::primitives_test {

using methods::OperatorModel;
using methods::OperatorPlan;
using methods::PlanCost;
using testing::ElementsAre;
using Kind = PrimitiveKind;

constexpr double kUnlimited = 1e9;

std::vector<int> GpusOf(const OperatorPlan& plan) {
  std::vector<int> gpus;
  for (int stage = 0; stage < plan.stages(); ++stage) {
    gpus.push_back(plan.GpusOf(stage));
  }
  return gpus;
}

// Four stages of two data-parallel GPUs each, of which the first to the last
// take 4, 3, 2 and 1 ms.
CostedPlan FourStages(const OperatorModel& model) {
  CostedPlan plan = Costed(
      model,
      PlanOfStages(model, 4, {{0, 0, 1}, {4, 0, 1}, {8, 0, 1}, {12, 0, 1}}));
  plan.cost.iteration_ms = 4.0;
  plan.cost.stage_iteration_ms = {4.0, 3.0, 2.0, 1.0};
  return plan;
}

std::optional<OperatorPlan> After(const OperatorModel& model,
                                  const CostedPlan& from, int stage,
                                  Kind kind) {
  std::int64_t explored = 0;
  const auto next = Apply(model, from, stage, kind, explored);
  return next ? std::optional(next->plan) : std::nullopt;
}

// Two stages are halved for the GPUs of one that doubles, and a stage that is
// halved doubles the busiest one, for which the idlest one is halved.
TEST(Primitives, PartnersGiveIdleGpusAndBusyOnesTakeThem) {
  const OperatorModel model = SmallModel(5, 8, kUnlimited);
  const CostedPlan plan = FourStages(model);
  for (const Kind kind : {Kind::kIncDp, Kind::kIncTp}) {
    EXPECT_THAT(GpusOf(*After(model, plan, 0, kind)), ElementsAre(4, 2, 1, 1));
    EXPECT_THAT(GpusOf(*After(model, plan, 3, kind)), ElementsAre(2, 1, 1, 4));
  }
  EXPECT_THAT(GpusOf(*After(model, plan, 0, Kind::kDecDp)),
              ElementsAre(1, 4, 2, 1));
  EXPECT_THAT(GpusOf(*After(model, plan, 2, Kind::kDecDp)),
              ElementsAre(4, 2, 1, 1));
  EXPECT_FALSE(After(model, plan, 0, Kind::kDecTp));
}

TEST(Primitives, ChangeTheNamedSizeOfTheStage) {
  const OperatorModel model = SmallModel(5, 8, kUnlimited);
  const CostedPlan plan = FourStages(model);
  const auto choice = [&](Kind kind) {
    return After(model, plan, 1, kind)->choices[5];
  };
  EXPECT_EQ(choice(Kind::kIncDp), (methods::OperatorChoice{0, 2}));
  EXPECT_EQ(choice(Kind::kIncTp), (methods::OperatorChoice{1, 1}));
  EXPECT_EQ(choice(Kind::kDecDp), (methods::OperatorChoice{0, 0}));
}

// Two GPUs are faster by data parallelism (half the time) than by tensor
// parallelism (0.6 of it).
TEST(Primitives, APartnerChangesTheFasterSize) {
  const OperatorModel model = SmallModel(5, 3, kUnlimited);
  CostedPlan plan =
      Costed(model, PlanOfStages(model, 4, {{0, 0, 1}, {8, 0, 0}}));
  plan.cost.stage_iteration_ms = {1.0, 2.0};
  const auto next = After(model, plan, 0, Kind::kDecDp);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->choices[9], (methods::OperatorChoice{0, 1}));
  plan.plan.micro_batch = 1;  // which data parallelism cannot split
  for (auto& each : plan.plan.choices) {
    each.tp_log2 = each.dp_log2;
    each.dp_log2 = 0;
  }
  const auto split = After(model, plan, 0, Kind::kDecTp);
  ASSERT_TRUE(split);
  EXPECT_EQ(split->choices[9], (methods::OperatorChoice{1, 0}));
}

// A plan of eight sequences whose stages of four operators have these numbers
// of data-parallel GPUs and take this time.
CostedPlan StagesOf(const OperatorModel& model, int micro_batch,
                    const std::vector<int>& gpus,
                    const std::vector<double>& stage_ms) {
  std::vector<StageSizes> stages;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    stages.push_back(
        {4 * static_cast<int>(i), 0, static_cast<int>(std::log2(gpus[i]))});
  }
  CostedPlan plan = Costed(model, PlanOfStages(model, micro_batch, stages));
  plan.cost.iteration_ms = 100.0;
  plan.cost.stage_iteration_ms = stage_ms;
  return plan;
}

TEST(Primitives, NoStageSettlesTwice) {
  const OperatorModel model = SmallModel(5, 12, kUnlimited);
  const CostedPlan plan = StagesOf(model, 8, {4, 4, 4}, {90.0, 80.0, 70.0});
  EXPECT_THAT(GpusOf(*After(model, plan, 0, Kind::kIncDp)),
              ElementsAre(8, 2, 2));
  EXPECT_THAT(GpusOf(*After(model, plan, 2, Kind::kDecDp)),
              ElementsAre(8, 2, 2));
}

// The idlest stages are the last, the second and the third.
TEST(Primitives, PartnersAreOnlyStagesWhoseGpusAddUp) {
  const OperatorModel eight = SmallModel(5, 10, kUnlimited);
  EXPECT_THAT(
      GpusOf(*After(eight,
                    StagesOf(eight, 4, {2, 4, 2, 2}, {90.0, 65.0, 80.0, 10.0}),
                    0, Kind::kIncDp)),
      ElementsAre(4, 4, 1, 1));
  const OperatorModel seven = SmallModel(5, 7, kUnlimited);
  EXPECT_THAT(
      GpusOf(*After(seven,
                    StagesOf(seven, 4, {2, 1, 2, 2}, {90.0, 0.0, 70.0, 60.0}),
                    0, Kind::kIncDp)),
      ElementsAre(4, 1, 1, 1));
}

// Two GPUs become free, for two stages of one.
TEST(Primitives, BusierStagesTakeFreeGpusFirst) {
  const OperatorModel model = SmallModel(5, 7, kUnlimited);
  EXPECT_THAT(
      GpusOf(*After(model,
                    StagesOf(model, 4, {4, 1, 1, 1}, {50.0, 90.0, 80.0, 70.0}),
                    0, Kind::kDecDp)),
      ElementsAre(2, 2, 2, 1));
}

// The numbers of partners with which a stage tries to double its GPUs.
TEST(Primitives, ExploreThePartnersThatHaveGpusToGive) {
  const auto explored = [](int gpus, int micro_batch,
                           const std::vector<int>& of_stages,
                           const std::vector<double>& stage_ms) {
    const OperatorModel model = SmallModel(5, gpus, kUnlimited);
    std::int64_t count = 0;
    (void)Apply(model, StagesOf(model, micro_batch, of_stages, stage_ms), 0,
                Kind::kIncDp, count);
    return count;
  };
  // It gives one of two.
  EXPECT_EQ(explored(4, 4, {2, 2}, {90.0, 90.0}), 1);
  // Eight are more than there are.
  EXPECT_EQ(explored(6, 8, {4, 2}, {90.0, 90.0}), 0);
  // The idlest has one.
  EXPECT_EQ(explored(7, 4, {2, 1, 2, 2}, {90.0, 0.0, 90.0, 90.0}), 1);
  // The idlest gives two of four, and the other one does, too.
  EXPECT_EQ(explored(12, 8, {4, 4, 4}, {90.0, 80.0, 70.0}), 1);
}

// Data parallelism is faster, but keeps all weights on each GPU.
TEST(Primitives, APartnerTakesTheFasterSizeThatFits) {
  std::vector<double> limits;
  for (double limit_mb = 40.0; limit_mb < 400.0; limit_mb += 4.0) {
    limits.push_back(limit_mb);
  }
  const auto partner = [](const OperatorModel& model, int tp_log2) {
    OperatorPlan plan =
        PlanOfStages(model, 2, {{0, 0, 0}, {8, tp_log2, 1 - tp_log2}});
    FitRecomputation(model, plan, 1);
    return plan;
  };
  const auto memory_mb = [](const OperatorModel& model,
                            const OperatorPlan& plan) {
    return model.Cost(plan).stages[1].memory_mb;
  };
  const OperatorModel tiny = SmallModel(5, 3, 1.0);
  limits.push_back(memory_mb(tiny, partner(tiny, 0)));
  limits.push_back(memory_mb(tiny, partner(tiny, 1)));
  int splits = 0;
  for (const double limit_mb : limits) {
    const OperatorModel model = SmallModel(5, 3, limit_mb);
    const OperatorPlan data = partner(model, 0);
    const OperatorPlan split = partner(model, 1);
    const auto total_ms = [&](const OperatorPlan& plan) {
      return model.Cost(plan).stages[1].total_ms();
    };
    const bool data_fits = memory_mb(model, data) <= limit_mb;
    const bool split_fits = memory_mb(model, split) <= limit_mb;
    const bool splits_it =
        data_fits == split_fits ? total_ms(split) < total_ms(data) : split_fits;
    OperatorPlan plan = PlanOfStages(model, 2, {{0, 0, 1}, {8, 0, 0}});
    CostedPlan from = Costed(model, plan);
    from.cost.stage_iteration_ms = {1.0, 2.0};
    const auto next = After(model, from, 0, Kind::kDecDp);
    ASSERT_TRUE(next);
    const OperatorPlan& expected = splits_it ? split : data;
    for (std::size_t op = 8; op < next->choices.size(); ++op) {
      EXPECT_EQ(next->choices[op], expected.choices[op]) << limit_mb;
    }
    splits += splits_it ? 1 : 0;
  }
  EXPECT_GT(splits, 0);
  EXPECT_LT(splits, static_cast<int>(limits.size()));
}

TEST(Primitives, MicrobatchesBelowTheLargestAreTheProfiledOnes) {
  const auto less = [](int gpus_log2, int from) {
    const OperatorModel model =
        SmallModel(2, 1 << gpus_log2, kUnlimited, 96, {1, 4, 12});
    const auto next = After(
        model, Costed(model, PlanOfStages(model, from, {{0, 0, gpus_log2}})), 0,
        Kind::kDecMicroBatch);
    return next ? next->micro_batch : 0;
  };
  EXPECT_EQ(less(2, 48), 24);
  EXPECT_EQ(less(0, 12), 4);
  EXPECT_EQ(less(0, 4), 1);
}

// From the profiled sizes 1, 2 and 4 on by doubling, as far as they divide the
// batch.
TEST(Primitives, MicrobatchesAreProfiledSizesAndTheirDoubles) {
  const auto sizes = [](int batch, int from, Kind kind) {
    const OperatorModel model = SmallModel(2, 1, kUnlimited, batch);
    CostedPlan plan = Costed(model, PlanOfStages(model, from, {{0}}));
    const auto next = After(model, plan, 0, kind);
    return next ? next->micro_batch : 0;
  };
  EXPECT_EQ(sizes(64, 1, Kind::kIncMicroBatch), 2);
  EXPECT_EQ(sizes(64, 2, Kind::kIncMicroBatch), 4);
  EXPECT_EQ(sizes(6, 2, Kind::kIncMicroBatch), 0);
  EXPECT_EQ(sizes(64, 4, Kind::kDecMicroBatch), 2);
  EXPECT_EQ(sizes(64, 2, Kind::kDecMicroBatch), 1);
  EXPECT_EQ(sizes(64, 1, Kind::kDecMicroBatch), 0);
  const auto on_two = [](int batch, int from, Kind kind) {
    const OperatorModel model = SmallModel(2, 2, kUnlimited, batch);
    const auto next = After(
        model, Costed(model, PlanOfStages(model, from, {{0, 0, 1}})), 0, kind);
    return next ? next->micro_batch : 0;
  };
  EXPECT_EQ(on_two(64, 4, Kind::kIncMicroBatch), 8);
  EXPECT_EQ(on_two(12, 4, Kind::kIncMicroBatch), 0);
  EXPECT_EQ(on_two(64, 8, Kind::kIncMicroBatch), 0);  // eight on each GPU
  EXPECT_EQ(on_two(64, 8, Kind::kDecMicroBatch), 4);
}

TEST(Primitives, RecomputationAloneIsAppliedWhereItChangesThePlan) {
  const OperatorModel roomy = SmallModel(3, 1, kUnlimited);
  OperatorPlan plan = PlanOfStages(roomy, 2, {{0}});
  EXPECT_FALSE(After(roomy, Costed(roomy, plan), 0, Kind::kDecRecomputation));
  const OperatorPlan nothing = plan;
  plan.choices[2].recomputed = 1;
  EXPECT_EQ(After(roomy, Costed(roomy, plan), 0, Kind::kDecRecomputation),
            nothing);
  const OperatorModel tight =
      SmallModel(3, 1, roomy.Cost(nothing).memory_mb - 1.0);
  std::int64_t explored = 0;
  const auto next = Apply(tight, Costed(tight, nothing), 0,
                          Kind::kIncRecomputation, explored);
  ASSERT_TRUE(next);
  EXPECT_TRUE(Fits(tight, next->cost));
  EXPECT_EQ(explored, 1);
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

// Of the first stage: half of the computation, 1/20 of the recomputation.
TEST(PrimitiveGroups, OfAResourceThatNoStageUsesAreTheLast) {
  const OperatorModel model = SmallModel(2, 2, 100.0);
  PlanCost cost;
  cost.memory_mb = 100.0;
  cost.stages.resize(2);
  cost.stages[0] = {.compute_ms = 6, .recompute_ms = 0.002, .ideal_ms = 10};
  cost.stages[1] = {.compute_ms = 10, .recompute_ms = 0.038, .ideal_ms = 10};
  EXPECT_THAT(PrimitiveGroups(model, cost, 0)[1],
              ElementsAre(Kind::kDecMicroBatch, Kind::kIncRecomputation));
  cost.stages[0].communicate_ms = 0.03;  // of 1
  cost.stages[1].communicate_ms = 0.97;
  EXPECT_THAT(PrimitiveGroups(model, cost, 0)[1],
              ElementsAre(Kind::kDecMicroBatch, Kind::kIncRecomputation));
  cost.stages[0].communicate_ms = 0.06;
  EXPECT_THAT(PrimitiveGroups(model, cost, 0)[1],
              ElementsAre(Kind::kDecDp, Kind::kDecTp));
}

TEST(PrimitiveGroups, OfEqualSharesAreInTheOrderOfTheTable) {
  const OperatorModel model = SmallModel(2, 2, 100.0);
  PlanCost cost;
  cost.memory_mb = 100.0;
  cost.stages.resize(2);
  for (auto& stage : cost.stages) {
    stage = {.compute_ms = 12,
             .recompute_ms = 2,
             .communicate_ms = 3,
             .ideal_ms = 10};
  }
  const auto groups = PrimitiveGroups(model, cost, 1);
  EXPECT_EQ(groups[0].front(), Kind::kDecOperators);  // computation
  EXPECT_THAT(groups[1], ElementsAre(Kind::kDecDp, Kind::kDecTp));
  EXPECT_THAT(groups[2],
              ElementsAre(Kind::kDecMicroBatch, Kind::kIncRecomputation));
}

TEST(BottlenecksOf, OfEqualStagesAreInTheirOrder) {
  PlanCost cost;
  cost.stages.resize(4);
  cost.stage_iteration_ms = {1.0, 3.0, 1.0, 3.0};
  EXPECT_THAT(BottlenecksOf(SmallModel(2, 4, kUnlimited), cost),
              ElementsAre(1, 3, 0, 2));
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
            << primitive.name;
        if (std::find(plans.begin(), plans.end(), *next) == plans.end()) {
          plans.push_back(*next);
        }
      }
    }
  }
  EXPECT_GT(applied, 500u);
}

}  // namespace methods::primitives_test
