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

using methods::OperatorChoice;
using methods::OperatorModel;
using methods::OperatorPlan;
using methods::PlanCost;
using testing::ElementsAre;

constexpr double kUnlimited = 1e9;

OperatorChoice ChoiceOf(const OperatorPlan& plan, int op) {
  return plan.choices[op];
}

// Idle GPU times of 2, 5.7, 4 * 3 and 1 ms.
TEST(IdlestFirst, WeighsIdleTimeByGpusAndHalvesThatOfFullStages) {
  PlanCost cost;
  cost.iteration_ms = 10.0;
  cost.stage_iteration_ms = {8.0, 4.3, 7.0, 9.0};
  cost.stages.resize(4);
  cost.stages[2].gpus = 4;
  EXPECT_THAT(IdlestFirst(cost), ElementsAre(2, 1, 0, 3));
  cost.stages[2].recompute_ms = 0.05;  // 6 ms
  EXPECT_THAT(IdlestFirst(cost), ElementsAre(2, 1, 0, 3));
  cost.stage_iteration_ms[1] = 3.5;  // 6.5 ms
  EXPECT_THAT(IdlestFirst(cost), ElementsAre(1, 2, 0, 3));
  cost.stages[1].recompute_ms = 0.05;  // 3.25 ms
  EXPECT_THAT(IdlestFirst(cost), ElementsAre(2, 1, 0, 3));
}

TEST(IdlestFirst, OfEqualStagesAreInTheirOrder) {
  PlanCost cost;
  cost.iteration_ms = 10.0;
  cost.stage_iteration_ms = {9.0, 8.0, 9.0, 8.0};
  cost.stages.resize(4);
  EXPECT_THAT(IdlestFirst(cost), ElementsAre(1, 3, 0, 2));
}

TEST(Score, OrdersByTimeWhatFitsAndByMemoryWhatDoesNot) {
  const OperatorModel model = SmallModel(1, 1, 100.0);
  PlanCost cost;
  cost.iteration_ms = 7.0;
  cost.memory_mb = 100.0;
  EXPECT_EQ(Score(model, cost), std::pair(false, 7.0));
  cost.memory_mb = 100.5;
  EXPECT_EQ(Score(model, cost), std::pair(true, 100.5));
}

TEST(MoveOperators, TakeTheSizesOfTheirNeighbor) {
  const OperatorModel model = SmallModel(4, 4, kUnlimited);
  OperatorPlan plan = PlanOfStages(model, 4, {{0, 0, 0}, {4, 1, 0}, {8, 0, 1}});
  for (OperatorChoice& choice : plan.choices) {
    choice.recomputed = 1;
  }
  OperatorPlan forward = plan;
  MoveOperators(forward, 1, 1, 2);
  EXPECT_THAT(forward.first, ElementsAre(0, 4, 6, model.operators()));
  OperatorPlan backward = plan;
  MoveOperators(backward, 1, -1, 3);
  EXPECT_THAT(backward.first, ElementsAre(0, 7, 8, model.operators()));
  for (int op = 0; op < model.operators(); ++op) {
    const OperatorChoice before = ChoiceOf(plan, op);
    EXPECT_EQ(ChoiceOf(forward, op),
              op == 6 || op == 7 ? (OperatorChoice{0, 1, 0, 0}) : before);
    EXPECT_EQ(ChoiceOf(backward, op),
              op >= 4 && op < 7 ? (OperatorChoice{0, 0, 0, 0}) : before);
  }
}

TEST(Scale, ChangesOneSizeOfARangeWhereAllOfItIsProfiled) {
  const OperatorModel model = SmallModel(4, 8, kUnlimited);
  const auto scaled = [&](int micro_batch, int tp_log2, int dp_log2, Size size,
                          int change) -> std::optional<OperatorPlan> {
    OperatorPlan plan =
        PlanOfStages(model, micro_batch, {{0, tp_log2, dp_log2}});
    return Scale(model, plan, 2, 5, size, change) ? std::optional(plan)
                                                  : std::nullopt;
  };
  for (const auto& [size, expected] :
       {std::pair(Size::kTp, OperatorChoice{1, 1}),
        std::pair(Size::kDp, OperatorChoice{0, 2})}) {
    const auto plan = scaled(4, 0, 1, size, 1);
    ASSERT_TRUE(plan);
    for (int op = 0; op < model.operators(); ++op) {
      EXPECT_EQ(ChoiceOf(*plan, op),
                op >= 2 && op < 5 ? expected : (OperatorChoice{0, 1}));
    }
  }
  EXPECT_TRUE(scaled(4, 1, 1, Size::kTp, -1));
  EXPECT_TRUE(scaled(4, 1, 1, Size::kDp, -1));
  EXPECT_FALSE(scaled(4, 0, 1, Size::kTp, -1));
  EXPECT_FALSE(scaled(4, 1, 0, Size::kDp, -1));
  EXPECT_FALSE(scaled(4, 1, 0, Size::kTp, 1));  // tp = 4 is not profiled
  EXPECT_TRUE(scaled(2, 0, 0, Size::kDp, 1));
  EXPECT_FALSE(scaled(1, 0, 0, Size::kDp, 1));  // one sequence
  EXPECT_FALSE(scaled(3, 0, 0, Size::kDp, 1));
}

TEST(Scale, KeepsTheVariantOfProductsThatAreSplitOnly) {
  const OperatorModel model = SmallModel(1, 4, kUnlimited);
  OperatorPlan plan = PlanOfStages(model, 4, {{0, 1, 0}});
  plan.choices[1].variant = 1;
  EXPECT_FALSE(Scale(model, plan, 1, 2, Size::kDp, 1));  // has one variant
  EXPECT_EQ(plan.choices[1].variant, 1);
  EXPECT_TRUE(Scale(model, plan, 1, 2, Size::kTp, -1));
  EXPECT_EQ(plan.choices[1].variant, 0);
}

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

std::vector<int> Recomputed(const OperatorModel& model, OperatorPlan plan) {
  FitRecomputation(model, plan, 0);
  std::vector<int> operators;
  for (int op = 0; op < model.operators(); ++op) {
    if (ChoiceOf(plan, op).recomputed != 0) {
      operators.push_back(op);
    }
  }
  return operators;
}

// The embedding, a layer's three operators and the last one.
TEST(FitRecomputation, RecomputesAllThatIsKeptWhereNothingFits) {
  for (const auto& [gelu_mb, expected] : {std::pair(10.0, std::vector{2, 3, 4}),
                                          std::pair(0.05, std::vector{2, 3, 4}),
                                          std::pair(0.0, std::vector{2, 3})}) {
    const OperatorModel model = SmallModel(1, 1, 1.0, 64, {1, 2, 4}, gelu_mb);
    EXPECT_EQ(Recomputed(model, PlanOfStages(model, 1, {{0}})), expected)
        << gelu_mb;
  }
}

// Of names that keep as much, the scores, which come first in the table: two of
// them save as much as one keeps.
TEST(FitRecomputation, OfEqualActivationsTakesTheFirst) {
  const OperatorModel roomy = SmallModel(6, 1, kUnlimited, 64, {1}, 40.0);
  const OperatorPlan plan = PlanOfStages(roomy, 1, {{0}});
  const OperatorModel model =
      SmallModel(6, 1, roomy.Cost(plan).memory_mb - 1.0, 64, {1}, 40.0);
  const std::vector<int> recomputed = Recomputed(model, plan);
  EXPECT_FALSE(recomputed.empty());
  for (const int op : recomputed) {
    EXPECT_NE(op % 3, 1) << op;  // the first layernorms, behind a gelu
  }
}

// tp = 4 is not profiled.
TEST(FitRecomputation, DoesNothingForAStageThatIsNotProfiled) {
  const OperatorModel model = SmallModel(2, 4, 1.0);
  OperatorPlan plan = PlanOfStages(model, 4, {{0, 1, 1}});
  EXPECT_FALSE(Recomputed(model, plan).empty());
  plan.choices[1] = {2, 0};
  EXPECT_TRUE(Recomputed(model, plan).empty());
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

// Relay with two stages, step by step: of the goals 0.4, 0.2 and 0 of the gap
// above the partner's time, the first that moving the fewest operators reaches
// for both.
CostedPlan RelayOfTwoStages(const OperatorModel& model, CostedPlan plan) {
  for (int i = 0; i < 5; ++i) {
    const bool memory = plan.cost.memory_mb > model.job().memory_limit_mb;
    const auto value = [&](const PlanCost& cost, int stage) {
      const auto& at = cost.stages[stage];
      return memory ? at.memory_mb : at.total_ms();
    };
    const int from = value(plan.cost, 1) > value(plan.cost, 0) ? 1 : 0;
    const double high = value(plan.cost, from);
    const double low = value(plan.cost, 1 - from);
    std::optional<CostedPlan> next;
    for (const double left : {0.4, 0.2, 0.0}) {
      const double goal =
          memory ? model.job().memory_limit_mb : high - left * (high - low);
      const int most = from == 0 ? plan.plan.first[1]
                                 : model.operators() - plan.plan.first[1];
      for (int count = 1; count < most && !next; ++count) {
        OperatorPlan moved = plan.plan;
        MoveOperators(moved, from, from == 0 ? 1 : -1, count);
        FitRecomputation(model, moved);
        const CostedPlan costed = Costed(model, moved);
        if (value(costed.cost, from) < goal) {
          if (value(costed.cost, 1 - from) < goal) {
            next = costed;
          }
          break;
        }
      }
      if (next || memory) {
        break;
      }
    }
    if (!next) {
      break;
    }
    plan = *next;
  }
  return plan;
}

TEST(Relay, MovesTheFewestOperatorsThatReachTheTightestGoal) {
  int moved = 0;
  for (const double limit_mb : {180.0, 260.0, 400.0, kUnlimited}) {
    const OperatorModel model = SmallModel(5, 2, limit_mb);
    for (int cut = 1; cut < model.operators(); ++cut) {
      OperatorPlan plan = PlanOfStages(model, 2, {{0}, {cut}});
      FitRecomputation(model, plan);
      const CostedPlan from = Costed(model, plan);
      const bool memory = from.cost.memory_mb > limit_mb;
      const auto value = [&](int stage) {
        const auto& at = from.cost.stages[stage];
        return memory ? at.memory_mb : at.total_ms();
      };
      std::int64_t explored = 0;
      const CostedPlan relayed =
          Relay(model, from, value(1) > value(0) ? 1 : 0, explored);
      EXPECT_EQ(relayed.plan, RelayOfTwoStages(model, from).plan)
          << limit_mb << " " << cut;
      EXPECT_GT(explored, 0);
      moved += relayed.plan.first != plan.first ? 1 : 0;
    }
  }
  EXPECT_GT(moved, 10);
}

}  // namespace methods::arguments_test
