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

using trials::ParallelConfig;

OperatorModel Model() {
  return {AnalyticOperators({}),
          LinkTable::Uniform(100.0, 12.0),
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
          const PlanCost cost = model.Cost(*plan);
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

}  // namespace methods::uniform_plan_test
