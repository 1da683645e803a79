// Configurations as plans of operators.

#include "methods/planners/aceso/uniform_plan.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "methods/planners/aceso/aceso.h"
#include "methods/planners/aceso/baselines.h"
#include "methods/planners/operators/analytic_operators.h"
#include "tests/fakes/decoders.h"

namespace methods::uniform_plan_test {

using methods::OperatorModel;
using methods::OperatorPlan;
using trials::ParallelConfig;

OperatorModel Model() {
  return {methods::AnalyticOperators({}),
          methods::LinkTable::Uniform(100.0, 12.0),
          {.layers = 24,
           .batch = 64,
           .gpus = 8,
           .gpus_per_node = 8,
           .memory_limit_mb = 80'000.0}};
}

TEST(UniformPlan, HasTheSizesOfItsConfiguration) {
  const OperatorModel model = Model();
  for (const ParallelConfig& config :
       {ParallelConfig{.dp = 4, .tp = 2, .microbatches = 4},
        ParallelConfig{.dp = 2, .pp = 4, .microbatches = 16},
        ParallelConfig{.tp = 2,
        .pp = 4,
        .microbatches = 64,
        .grad_checkpoint = trials::kRecomputeFull}}) {
    const std::optional<OperatorPlan> plan = PlanOf(model, config);
    ASSERT_TRUE(plan);
    EXPECT_EQ(Distance(SizesOf(*plan, 64), config, true), 0.0)
        << ToString(config);
    for (int s = 0; s < config.pp; ++s) {
      EXPECT_EQ(plan->GpusOf(s), config.dp * config.tp);
    }
  }
}

// 24 layers of 13 operators behind the embedding.
TEST(UniformPlan, StagesBeginAtEquallyManyLayersAndTheFirstWithTheModel) {
  const OperatorModel model = Model();
  const std::vector<int> layers = LayersOf(model);
  ASSERT_EQ(layers.size(), 24u);
  EXPECT_EQ(layers[0], 1);
  EXPECT_EQ(EqualStages(model, 1).first,
            (std::vector<int>{0, model.operators()}));
  EXPECT_EQ(EqualStages(model, 4).first,
            (std::vector<int>{0, layers[6], layers[12], layers[18],
                              model.operators()}));
  EXPECT_EQ(EqualStages(model, 5).first,  // 4, 5, 5, 5 and 5 layers
            (std::vector<int>{0, layers[4], layers[9], layers[14], layers[19],
                              model.operators()}));
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
                (methods::OperatorChoice{
                    1, 2, 0, static_cast<std::uint8_t>(recomputed ? 1 : 0)}))
          << name;
    }
  }
}

TEST(UniformPlan, AGivenSizeOfMicrobatchesHasToMultiplyToTheBatch) {
  const OperatorModel model = Model();
  const auto plan =
      PlanOf(model, {.dp = 2, .microbatches = 32, .micro_batch_size = 1});
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->micro_batch, 2);
  EXPECT_TRUE(
      PlanOf(model, {.dp = 2, .microbatches = 8, .micro_batch_size = 4}));
  EXPECT_FALSE(
      PlanOf(model, {.dp = 2, .microbatches = 8, .micro_batch_size = 1}));
  EXPECT_FALSE(
      PlanOf(model, {.dp = 2, .microbatches = 8, .micro_batch_size = 2}));
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

TEST(UniformPlan, MoreRecomputationTakesLongerAndNeedsLessMemory) {
  const OperatorModel model = Model();
  const auto cost = [&](int recomputation) {
    return model.Cost(*PlanOf(model, {.dp = 2,
                                      .pp = 4,
                                      .microbatches = 16,
                                      .grad_checkpoint = recomputation}));
  };
  const auto nothing = cost(trials::kRecomputeNothing);
  const auto core = cost(trials::kRecomputeSelective);
  const auto all = cost(trials::kRecomputeFull);
  EXPECT_LT(nothing.iteration_ms, core.iteration_ms);
  EXPECT_LT(core.iteration_ms, all.iteration_ms);
  EXPECT_GT(nothing.memory_mb, core.memory_mb);
  EXPECT_GT(core.memory_mb, all.memory_mb);
}

// The grid enumerates the same plans on its own.
TEST(UniformPlan, TheBestOfAllConfigurationsIsThatOfMegatronsGrid) {
  const OperatorModel model = Model();
  double best_ms = 1e30;
  for (const int pp : {1, 2, 4, 8}) {
    for (int tp = 1; tp <= 8 / pp; tp *= 2) {
      const int dp = 8 / pp / tp;
      for (int m = 1; m <= 64; m *= 2) {
        for (const int checkpoint : {0, 1}) {
          const auto plan = PlanOf(model, {.dp = dp,
                                           .tp = tp,
                                           .pp = pp,
                                           .microbatches = m,
                                           .grad_checkpoint = checkpoint});
          if (!plan) {
            continue;
          }
          const methods::PlanCost cost = model.Cost(*plan);
          if (cost.memory_mb <= 80'000.0) {
            best_ms = std::min(best_ms, cost.iteration_ms);
          }
        }
      }
    }
  }
  const BaselineResult grid = MegatronGrid(model);
  ASSERT_TRUE(grid.best);
  EXPECT_EQ(grid.best->cost.iteration_ms, best_ms);
}

TEST(UniformPlan, EveryCandidateOfASpaceOfPowersOfTwoHasAnEstimate) {
  const trials::Workload workload = fakes::Decoder{}.Workload();
  std::vector<ParallelConfig> configs;
  for (const int pp : {1, 2, 4, 8, 16}) {
    for (int tp = 1; tp * pp <= 16; tp *= 2) {
      const int dp = 16 / pp / tp;
      for (int m = pp; m <= 64 / dp; m *= 2) {
        configs.push_back({.dp = dp, .tp = tp, .pp = pp, .microbatches = m});
      }
    }
  }
  const trials::SearchSpace space(configs);
  const trials::Predictions estimates =
      EstimatesOf({.space = &space,
                   .gpus = 16,
                   .gpus_per_node = 8,
                   .memory_capacity_bytes = 80e9,
                   .workload = &workload},
                  AcesoMethodOptions());
  ASSERT_EQ(estimates.step_time_s.size(), configs.size());
  for (std::size_t i = 0; i < configs.size(); ++i) {
    EXPECT_TRUE(std::isfinite(estimates.step_time_s[i]))
        << ToString(configs[i]);
    EXPECT_GT(estimates.peak_memory_bytes[i], 1e8) << ToString(configs[i]);
  }
}

}  // namespace methods::uniform_plan_test
