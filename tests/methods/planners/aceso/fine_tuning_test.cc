// Adjustments of single operators, on a model whose operators have two variants
// and costs without a pattern.

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "methods/planners/aceso/search.h"
#include "tests/methods/planners/aceso/rugged_model.h"
#include "tests/methods/planners/aceso/small_model.h"
#include "tests/methods/planners/profiled_layers.h"

namespace methods::fine_tuning_test {

// The plan if its stage fits and is faster than `best`, otherwise `best`.
OperatorPlan Faster(const OperatorModel& model, int stage,
                    const OperatorPlan& best, OperatorPlan plan) {
  const auto ms = [&](const OperatorPlan& of) {
    return model.Cost(model.ViewOf(of, stage)).total_ms();
  };
  FitRecomputation(model, plan, stage);
  return model.Cost(model.ViewOf(plan, stage)).memory_mb <=
                     model.job().memory_limit_mb &&
                 ms(plan) < ms(best)
             ? plan
             : best;
}

// One operator with half or twice the tp; false if that is not possible.
bool Exchange(OperatorPlan& plan, int op, int by) {
  OperatorChoice& choice = plan.choices[op];
  const int tp_log2 = choice.tp_log2 + by;
  const int dp_log2 = choice.dp_log2 - by;
  if (tp_log2 < 0 || dp_log2 < 0 || tp_log2 > 2 ||
      plan.micro_batch % (1 << dp_log2) != 0 ||
      plan.micro_batch >> dp_log2 > 4) {
    return false;
  }
  choice.tp_log2 = static_cast<std::uint8_t>(tp_log2);
  choice.dp_log2 = static_cast<std::uint8_t>(dp_log2);
  if (tp_log2 == 0) {
    choice.variant = 0;
  }
  return true;
}

// Every run of operators from a tunable one towards an end of the stage, then
// every other variant.
OperatorPlan TunedStage(const OperatorModel& model, const OperatorPlan& plan,
                        int stage) {
  const int begin = plan.first[stage];
  const int end = plan.first[static_cast<std::size_t>(stage) + 1];
  OperatorPlan best = plan;
  for (int op = begin; op < end; ++op) {
    if (!model.TraitsOf(op).tunable) {
      continue;
    }
    for (const int by : {1, -1}) {
      OperatorPlan later = plan;
      for (int i = op; i < end && Exchange(later, i, by); ++i) {
      }
      best = Faster(model, stage, best, later);
    }
    for (const int by : {1, -1}) {
      OperatorPlan earlier = plan;
      for (int i = op; i >= begin && Exchange(earlier, i, by); --i) {
      }
      best = Faster(model, stage, best, earlier);
    }
  }
  for (int op = begin; op < end; ++op) {
    OperatorPlan other = best;
    OperatorChoice& choice = other.choices[op];
    if (model.TraitsOf(op).tunable && choice.tp_log2 > 0) {
      choice.variant = choice.variant == 0 ? 1 : 0;
      best = Faster(model, stage, best, other);
    }
  }
  return best;
}

TEST(FineTune, KeepsTheFastestChangeOfEveryStage) {
  int changed = 0;
  int variants = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    for (const double limit_mb : {170.0, 1e9}) {
      const OperatorModel model = RuggedModel(seed, limit_mb);
      OperatorPlan plan =
          PlanOfStages(model, 4, {{0, 1, 1}, {8, 2, 0}, {12, 0, 0}});
      plan.choices[2] = {0, 2};
      plan.choices[4] = {2, 0, 1};
      plan.choices[10].variant = 1;
      FitRecomputation(model, plan);
      OperatorPlan expected = plan;
      for (int stage = 0; stage < plan.stages(); ++stage) {
        expected = TunedStage(model, expected, stage);
      }
      std::int64_t explored = 0;
      const CostedPlan tuned = FineTune(model, Costed(model, plan), explored);
      EXPECT_EQ(tuned.plan, expected) << seed << " " << limit_mb;
      EXPECT_EQ(tuned.cost.iteration_ms, model.Cost(expected).iteration_ms);
      changed += expected == plan ? 0 : 1;
      for (const OperatorChoice& choice : expected.choices) {
        variants += choice.variant;
      }
    }
  }
  EXPECT_GT(changed, 12);
  EXPECT_GT(variants, 12);
}

}  // namespace methods::fine_tuning_test
