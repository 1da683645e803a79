#include "methods/planners/aceso/arguments.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/methods/planners/aceso/small_model.h"

namespace methods::arguments_test {

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

// Relay over any number of stages, which tries every number of operators.
class PlainRelay {
 public:
  PlainRelay(const OperatorModel& model, bool memory)
      : model_(model), memory_(memory) {}

  CostedPlan From(CostedPlan plan, int bottleneck) {
    for (int i = 0; i < 5; ++i) {
      const int partner = Partner(plan.cost, bottleneck);
      if (partner == bottleneck) {
        break;
      }
      const double high = Value(plan.cost, bottleneck);
      const double low = Value(plan.cost, partner);
      std::optional<OperatorPlan> next;
      for (const double left : {0.4, 0.2, 0.0}) {
        if (!next && !(memory_ && left != 0.4)) {
          ++explored_;
          next = To(plan.plan, bottleneck, partner,
                    memory_ ? model_.job().memory_limit_mb
                            : high - left * (high - low));
        }
      }
      if (!next) {
        break;
      }
      plan = Costed(model_, *next);
      bottleneck = 0;
      for (int stage = 1; stage < plan.plan.stages(); ++stage) {
        if (Value(plan.cost, stage) > Value(plan.cost, bottleneck)) {
          bottleneck = stage;
        }
      }
    }
    return plan;
  }
  [[nodiscard]] std::int64_t explored() const { return explored_; }

 private:
  [[nodiscard]] double Value(const PlanCost& cost, int stage) const {
    const auto& at = cost.stages[stage];
    return memory_ ? at.memory_mb : at.total_ms();
  }
  [[nodiscard]] int Partner(const PlanCost& cost, int bottleneck) const {
    if (!memory_) {
      const std::vector<int> order = IdlestFirst(cost);
      return *std::find_if(order.begin(), order.end(), [&](int stage) {
        return stage != bottleneck || order.size() == 1;
      });
    }
    int least = 0;
    for (std::size_t stage = 1; stage < cost.stages.size(); ++stage) {
      if (Value(cost, static_cast<int>(stage)) < Value(cost, least)) {
        least = static_cast<int>(stage);
      }
    }
    return least;
  }
  [[nodiscard]] std::optional<OperatorPlan> To(OperatorPlan plan, int stage,
                                               int partner, double goal) const {
    const int step = partner > stage ? 1 : -1;
    while (stage != partner) {
      const auto at = static_cast<std::size_t>(stage);
      const int most = plan.first[at + 1] - plan.first[at] - 1;
      int count = 0;
      OperatorPlan moved = plan;
      while (!(Value(model_.Cost(moved), stage) < goal)) {
        if (++count > most) {
          return std::nullopt;
        }
        moved = plan;
        MoveOperators(moved, stage, step, count);
        FitRecomputation(model_, moved, stage);
      }
      FitRecomputation(model_, moved, stage + step);
      plan = moved;
      stage += step;
    }
    return Value(model_.Cost(plan), stage) < goal ? std::optional(plan)
                                                  : std::nullopt;
  }

  const OperatorModel& model_;
  bool memory_;
  std::int64_t explored_ = 0;
};

// Of the slowest or fullest stage, and of any other one.
TEST(Relay, OfSeveralStagesIsThePlainOne) {
  std::mt19937_64 engine(5);
  const auto draw = [&](int count) {
    return static_cast<int>(engine() % static_cast<unsigned>(count));
  };
  int moved = 0;
  int relayed_by_memory = 0;
  for (int round = 0; round < 150; ++round) {
    const int layers = 4 + draw(8);
    const int stages = 2 + draw(3);
    std::vector<StageSizes> sizes;
    int gpus = 0;
    const int operators = 3 * layers + 2;
    for (int stage = 0; stage < stages; ++stage) {
      const int first = stage == 0
                            ? 0
                            : sizes.back().first + 1 +
                                  draw((operators - sizes.back().first) / 2);
      sizes.push_back({first, draw(2), draw(3)});
      gpus += 1 << (sizes.back().tp_log2 + sizes.back().dp_log2);
    }
    const double limit_mb =
        round % 3 == 0 ? kUnlimited : 60.0 + 20.0 * draw(30);
    const OperatorModel model = SmallModel(layers, gpus, limit_mb);
    OperatorPlan plan = PlanOfStages(model, 4, sizes);
    FitRecomputation(model, plan);
    const CostedPlan from = Costed(model, plan);
    const bool memory = from.cost.memory_mb > limit_mb;
    for (int stage = 0; stage < stages; ++stage) {
      std::int64_t explored = 0;
      const CostedPlan relayed = Relay(model, from, stage, explored);
      PlainRelay plain(model, memory);
      ASSERT_EQ(relayed.plan, plain.From(from, stage).plan)
          << round << ' ' << stage;
      EXPECT_EQ(explored, plain.explored());
      const bool changed = relayed.plan != from.plan;
      moved += changed ? 1 : 0;
      relayed_by_memory += changed && memory ? 1 : 0;
    }
  }
  EXPECT_GT(moved, 50);
  EXPECT_GT(relayed_by_memory, 5);
}

}  // namespace methods::arguments_test
