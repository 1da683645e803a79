#include "planners/aceso/arguments.h"

#include <cmath>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/planners/aceso/small_model.h"

namespace planners::arguments_test {

constexpr double kUnlimited = 1e9;

// Every tp, each with the recomputation that it needs.
TEST(ChooseSizes, TakesTheFastestThatFitsOrElseTheSmallest) {
  std::vector<double> limits = {50.0, 150.0, 200.0, 250.0, 300.0, 400.0, 1e6};
  // Exactly what is needed, with all and with no recomputation.
  for (const double tight_mb : {1.0, kUnlimited}) {
    const OperatorModel model = SmallModel(6, 4, tight_mb);
    for (const int micro_batch : {2, 4}) {
      for (const StageSizes& sizes :
           {StageSizes{7, 0, 1}, StageSizes{7, 1, 0}, StageSizes{7, 1, 1}}) {
        OperatorPlan plan = PlanOfStages(model, micro_batch, {{0}, sizes});
        FitRecomputation(model, plan, 1);
        limits.push_back(model.Cost(plan).stages[1].memory_mb);
      }
    }
  }
  for (const double limit_mb : limits) {
    const OperatorModel model = SmallModel(6, 4, limit_mb);
    for (const int micro_batch : {1, 2, 4}) {
      for (const int gpus_log2 : {0, 1, 2}) {
        OperatorPlan best;
        std::pair<bool, double> least = {true, kUnlimited};
        for (int tp_log2 = 0; tp_log2 <= gpus_log2; ++tp_log2) {
          OperatorPlan plan =
              PlanOfStages(model, micro_batch,
                           {{0, 0, 0}, {7, tp_log2, gpus_log2 - tp_log2}});
          if (micro_batch % (1 << (gpus_log2 - tp_log2)) != 0) {
            continue;
          }
          FitRecomputation(model, plan, 1);
          const auto cost = model.Cost(model.ViewOf(plan, 1));
          const std::pair score = cost.memory_mb <= limit_mb
                                      ? std::pair(false, cost.total_ms())
                                      : std::pair(true, cost.memory_mb);
          if (std::isfinite(cost.total_ms()) && score < least) {
            least = score;
            best = plan;
          }
        }
        OperatorPlan chosen = PlanOfStages(model, micro_batch, {{0}, {7}});
        const OperatorPlan before = chosen;
        EXPECT_EQ(ChooseSizes(model, chosen, 1, 1 << gpus_log2),
                  !best.choices.empty());
        EXPECT_EQ(chosen, best.choices.empty() ? before : best)
            << limit_mb << " " << micro_batch << " " << gpus_log2;
      }
    }
  }
}

// The operators with kept activations in the order of the sum of these over
// each name, and how few of them have to be recomputed.
TEST(FitRecomputation, RecomputesTheFewestOfTheLargestActivations) {
  for (const double share : {1.0, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3}) {
    OperatorPlan plan;
    const auto plan_of = [](const OperatorModel& model) {
      return PlanOfStages(model, 2, {{0}, {10}});
    };
    const OperatorModel roomy = SmallModel(6, 2, kUnlimited);
    const double all_mb = roomy.Cost(plan_of(roomy)).stages[0].memory_mb;
    const OperatorModel model = SmallModel(6, 2, share * all_mb);
    std::vector<int> order;
    for (const char* name : {"enc-attention-score", "enc-MLP-gelu"}) {
      for (int op = 0; op < 10; ++op) {
        if (model.table().names()[model.NameOf(op)] == name) {
          order.push_back(op);
        }
      }
    }
    OperatorPlan expected = plan_of(model);
    for (const int op : order) {
      if (model.Cost(expected).stages[0].memory_mb <= share * all_mb) {
        break;
      }
      expected.choices[op].recomputed = 1;
      if (op < 9) {
        expected.choices[static_cast<std::size_t>(op) + 1].recomputed = 1;
      }
    }
    OperatorPlan fitted = plan_of(model);
    for (OperatorChoice& choice : fitted.choices) {
      choice.recomputed = 1;  // also what is no longer needed
    }
    FitRecomputation(model, fitted, 0);
    for (std::size_t op = 10; op < fitted.choices.size(); ++op) {
      EXPECT_EQ(std::exchange(fitted.choices[op].recomputed, 0), 1);
    }
    EXPECT_EQ(fitted, expected) << share;
  }
}

}  // namespace planners::arguments_test
