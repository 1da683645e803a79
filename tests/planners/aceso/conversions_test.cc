#include "planners/aceso/conversions.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planners/operators/analytic_operators.h"
#include "planners/planner.h"

namespace planners::conversions_test {

using testing::ElementsAre;
using trials::ParallelConfig;

OperatorModel Model() {
  return {AnalyticOperators({}),
          LinkTable::Uniform(100.0, 12.0, 8),
          {.layers = 24,
           .batch = 64,
           .gpus = 8,
           .gpus_per_node = 8,
           .memory_limit_mb = 80'000.0}};
}

TEST(UniformPlan, RecomputesNothingTheCoreOfAttentionOrAllButTheEnds) {
  const OperatorModel model = Model();
  for (const int recomputation :
       {trials::kRecomputeNothing, trials::kRecomputeSelective,
        trials::kRecomputeFull}) {
    const auto plan = PlanOf(model, {.dp = 4,
                                     .tp = 2,
                                     .microbatches = 4,
                                     .grad_checkpoint = recomputation});
    ASSERT_TRUE(plan);
    for (int op = 0; op < model.operators(); ++op) {
      const std::string& name = model.table().names()[model.NameOf(op)];
      const bool core =
          name == "enc-attention-score" || name == "enc-attention-softmax" ||
          name == "enc-attention-dropout" || name == "enc-attention-context";
      const bool end = op == 0 || op + 1 == model.operators();
      const bool recomputed = recomputation == trials::kRecomputeFull ? !end
                              : recomputation == trials::kRecomputeSelective
                                  ? core
                                  : false;
      EXPECT_EQ(plan->choices[op],
                (OperatorChoice{1, 2, 0,
                                static_cast<std::uint8_t>(recomputed ? 1 : 0)}))
          << name;
    }
  }
}

TEST(UniformPlan, IsNothingWherePlansLackTheSizes) {
  const OperatorModel model = Model();
  EXPECT_FALSE(PlanOf(model, {.dp = 3, .microbatches = 1}));
  EXPECT_FALSE(PlanOf(model, {.tp = 6, .microbatches = 1}));
  EXPECT_FALSE(PlanOf(model, {.pp = 25, .microbatches = 64}));
  EXPECT_FALSE(PlanOf(model, {.dp = 2, .microbatches = 3}));
  EXPECT_FALSE(PlanOf(model, {.dp = 4, .microbatches = 64}));
  EXPECT_FALSE(PlanOf(model, {.dp = 2, .microbatches = 1, .cp = 2}));
}

OperatorPlan TwoStages(const OperatorModel& model) {
  OperatorPlan plan = EqualStages(model, 2);
  plan.micro_batch = 4;
  SetSizes(model, 2, 2, trials::kRecomputeNothing, plan);
  return plan;
}

TEST(LayerPlan, OfAConfigurationIsThePlanOfTheConfiguration) {
  const OperatorModel model = Model();
  for (const ParallelConfig& config :
       {ParallelConfig{.dp = 4, .tp = 2, .microbatches = 4},
        ParallelConfig{.dp = 2, .pp = 4, .microbatches = 16},
        ParallelConfig{
            .dp = 4, .pp = 2, .microbatches = 16, .grad_checkpoint = 1}}) {
    SCOPED_TRACE(ToString(config));
    const std::optional<OperatorPlan> plan = PlanOf(model, config);
    ASSERT_TRUE(plan);
    trials::Plan expected = UniformPlan(config, 24);
    expected.shared.grad_checkpoint = 0;  // its layers are listed by stage
    EXPECT_EQ(ToString(LayerPlanOf(model, *plan)), ToString(expected));
  }
}

TEST(LayerPlan, StagesBeginAtTheNearestLayer) {
  const OperatorModel model = Model();
  const std::vector<int> first = LayersOf(model);
  const int length = first[1] - first[0];
  OperatorPlan plan = TwoStages(model);
  plan.first[1] = first[12] + length / 2 - 1;
  EXPECT_THAT(LayerPlanOf(model, plan).layers, ElementsAre(12, 12));
  plan.first[1] = first[12] + (length + 1) / 2;
  EXPECT_THAT(LayerPlanOf(model, plan).layers, ElementsAre(13, 11));
  plan.first[1] = 1;  // the embedding alone
  EXPECT_THAT(LayerPlanOf(model, plan).layers, ElementsAre(0, 24));
  plan.first[1] = model.operators() - 1;  // the last operator of the head
  EXPECT_THAT(LayerPlanOf(model, plan).layers, ElementsAre(24, 0));
}

TEST(LayerPlan, SizesAreThoseOfMostOperatorsOfTheStage) {
  const OperatorModel model = Model();
  OperatorPlan plan = TwoStages(model);
  for (int op = 0; op < plan.first[1]; ++op) {
    plan.choices[op] = {0, 2, 0, 0};
  }
  plan.choices[3] = {2, 0, 0, 0};
  const trials::Plan layers = LayerPlanOf(model, plan);
  EXPECT_EQ(layers.stages[0].dp, 4);
  EXPECT_EQ(layers.stages[0].tp, 1);
  EXPECT_EQ(layers.stages[1].dp, 2);
  EXPECT_EQ(layers.stages[1].tp, 2);
  EXPECT_EQ(layers.shared.microbatches, 16);
}

TEST(LayerPlan, RecomputedLayersHoldAtLeastTheDroppedActivations) {
  const OperatorModel model = Model();
  OperatorPlan plan = TwoStages(model);
  const std::vector<int> first = LayersOf(model);
  const auto recompute = [&](int begin, int end) {
    for (int op = begin; op < end; ++op) {
      plan.choices[op].recomputed = 1;
    }
    return LayerPlanOf(model, plan).stages[0].recomputed_layers;
  };
  EXPECT_EQ(recompute(0, 0), 0);
  EXPECT_EQ(recompute(first[0], first[0] + 3), 1);  // a part of a layer
  EXPECT_THAT(recompute(first[0], first[5]), testing::AnyOf(5, 6));
  EXPECT_EQ(LayerPlanOf(model, plan).stages[1].recomputed_layers, 0);
}

}  // namespace planners::conversions_test
