#include "methods/planners/aceso/layer_plan.h"

#include <cstddef>
#include <optional>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "methods/planners/aceso/uniform_plan.h"
#include "methods/planners/operators/analytic_operators.h"
#include "tests/methods/planners/profiled_layers.h"

namespace methods::layer_plan_test {

using methods::OperatorModel;
using methods::OperatorPlan;
using testing::ElementsAre;
using trials::ParallelConfig;

constexpr int kLayers = 24;

OperatorModel Model() {
  return {methods::AnalyticOperators({}),
          methods::LinkTable::Uniform(100.0, 12.0),
          {.layers = kLayers,
           .batch = 64,
           .gpus = 8,
           .gpus_per_node = 8,
           .memory_limit_mb = 80'000.0}};
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
    trials::Plan expected = UniformPlan(config, kLayers);
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
  EXPECT_THAT(LayerPlanOf(model, plan).layers, ElementsAre(0, kLayers));
  plan.first[1] = model.operators() - 1;  // the last operator of the head
  EXPECT_THAT(LayerPlanOf(model, plan).layers, ElementsAre(kLayers, 0));
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

// An embedding, layers of two operators and a head, on one GPU; the second
// operator of a layer holds three times the activations of the first.
OperatorModel PairedOperators(int layers, double activations_mb) {
  const auto row = [](const char* name, double mb) {
    return methods::ProfiledOperator{
        name, 1, 1, 0, {.forward_us = 1.0, .activations_mb = mb}};
  };
  return ModelOfRows(
      {row(kFirst, 100.0), row(kLayer, activations_mb),
       row("enc-MLP-gelu", 3.0 * activations_mb), row(kLast, 0.0)},
      {.layers = layers, .batch = 4});
}

OperatorPlan Cut(const OperatorModel& model, int at) {
  OperatorPlan plan;
  plan.first = {0, at, model.operators()};
  plan.choices.resize(model.operators());
  return plan;
}

TEST(LayerPlan, HalfALayerCountsAsAWholeOne) {
  const OperatorModel model = PairedOperators(2, 1.0);
  EXPECT_THAT(LayerPlanOf(model, Cut(model, 1)).layers, ElementsAre(0, 2));
  EXPECT_THAT(LayerPlanOf(model, Cut(model, 2)).layers, ElementsAre(1, 1));
  EXPECT_THAT(LayerPlanOf(model, Cut(model, 3)).layers, ElementsAre(1, 1));
  EXPECT_THAT(LayerPlanOf(model, Cut(model, 4)).layers, ElementsAre(2, 0));
}

// The length of a single layer is not known: it ends with the model.
TEST(LayerPlan, ASingleLayerEndsWithTheModel) {
  const OperatorModel model = PairedOperators(1, 1.0);
  EXPECT_THAT(LayerPlanOf(model, Cut(model, 2)).layers, ElementsAre(0, 1));
  EXPECT_THAT(LayerPlanOf(model, Cut(model, 3)).layers, ElementsAre(1, 0));
}

TEST(LayerPlan, OfTwoEquallyFrequentSizesTheSmallerTpCounts) {
  const OperatorModel model = Model();
  OperatorPlan plan = TwoStages(model);
  plan.first[1] = 4;
  plan.choices[0] = plan.choices[2] = {0, 2, 0, 0};
  EXPECT_EQ(LayerPlanOf(model, plan).stages[0].tp, 1);
  plan.choices[1] = {1, 1, 0, 0};
  plan.choices[2] = {1, 1, 0, 0};
  EXPECT_EQ(LayerPlanOf(model, plan).stages[0].tp, 2);
}

// Three quarters of the activations of four layers, however small they are;
// those of the embedding are not counted, as they are always kept.
TEST(LayerPlan, RecomputedLayersAreTheShareOfActivations) {
  for (const double mb : {1e-3, 1.0, 1e3}) {
    const OperatorModel model = PairedOperators(4, mb);
    OperatorPlan plan = EqualStages(model, 1);
    for (const std::size_t op : {2U, 4U, 6U, 8U}) {
      plan.choices[op].recomputed = 1;
    }
    EXPECT_EQ(LayerPlanOf(model, plan).stages[0].recomputed_layers, 3) << mb;
  }
  const OperatorModel empty = PairedOperators(4, 0.0);
  EXPECT_EQ(
      LayerPlanOf(empty, EqualStages(empty, 1)).stages[0].recomputed_layers, 0);
}

}  // namespace methods::layer_plan_test
