// Alpa's two levels, by enumeration.

#include "methods/planners/alpa/alpa.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "surrogates/operators/analytic_operators.h"

namespace methods {
namespace {

using surrogates::OperatorChoice;
using surrogates::OperatorModel;
using surrogates::OperatorPlan;

OperatorModel Model(int layers, int gpus, double memory_limit_mb) {
  return {surrogates::AnalyticOperators({.largest_tp = 4}),
          surrogates::LinkTable::Uniform(100.0, 12.0),
          {.layers = layers,
           .batch = 16,
           .gpus = gpus,
           .gpus_per_node = gpus,
           .memory_limit_mb = memory_limit_mb}};
}

// The time of one microbatch of a stage without transfers.
double ChainMs(const OperatorModel& model,
               const std::vector<OperatorChoice>& choices,
               int micro_batch) {
  double us = 0.0;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const int op = static_cast<int>(i);
    const auto* profile = model.Profile(op, micro_batch, choices[i]);
    if (profile == nullptr) {
      return std::numeric_limits<double>::infinity();
    }
    us += profile->forward_us * (choices[i].recomputed != 0 ? 2.0 : 1.0) +
          profile->backward_us;
    if (i > 0) {
      us += model.ConversionUs(op, micro_batch, choices[i - 1], choices[i]);
    }
  }
  return 1e-3 * us;
}

TEST(Alpa, NoOtherChoiceOfAChainIsFaster) {
  // A uniform link table has no collectives, so sizes change where no
  // conversion is needed only; all choices of the first six operators.
  const OperatorModel model = Model(1, 4, 80'000.0);
  constexpr int kEnd = 6;
  const auto best = IntraOperator(model, 0, kEnd, 4, 4, true);
  ASSERT_EQ(best.size(), static_cast<std::size_t>(kEnd));
  double least = std::numeric_limits<double>::infinity();
  std::vector<OperatorChoice> choices(kEnd);
  const std::function<void(std::size_t)> choose = [&](std::size_t i) {
    if (i == choices.size()) {
      least = std::min(least, ChainMs(model, choices, 4));
      return;
    }
    for (std::uint8_t tp = 0; tp <= 2; ++tp) {
      choices[i] = {
          tp, static_cast<std::uint8_t>(2 - tp), 0, best[i].recomputed};
      choose(i + 1);
    }
  };
  choose(0);
  EXPECT_NEAR(ChainMs(model, best, 4) / least, 1.0, 1e-12);
}

TEST(Alpa, ThePlanIsTheBestOfAllPartitionsWithItsStages) {
  const OperatorModel model = Model(4, 4, 80'000.0);
  const BaselineResult result = AlpaPlan(model);
  ASSERT_TRUE(result.best);
  const OperatorPlan& plan = result.best->plan;
  int gpus = 0;
  for (int s = 0; s < plan.stages(); ++s) {
    gpus += plan.GpusOf(s);
  }
  EXPECT_EQ(gpus, 4);
  EXPECT_LE(result.best->cost.memory_mb, 80'000.0);

  // All partitions of four layers into stages on 1, 2 or 4 GPUs.
  std::vector<int> cuts = {0};
  for (int op = 1; op < model.operators(); ++op) {
    if (model.TraitsOf(op).begins_layer && op > cuts.back() + 2) {
      cuts.push_back(op);
    }
  }
  cuts.push_back(model.operators());
  double least = std::numeric_limits<double>::infinity();
  // Microbatches of 1 to 16 sequences, with and without recomputation.
  for (int variant = 0; variant < 10; ++variant) {
    const int micro_batch = 1 << (variant / 2);
    const bool recompute = variant % 2 == 1;
    OperatorPlan other;
    other.micro_batch = micro_batch;
    const std::function<void(std::size_t, int)> divide = [&](std::size_t cut,
                                                             int left) {
      if (cut + 1 == cuts.size()) {
        if (left == 0) {
          other.first.push_back(model.operators());
          const auto cost = model.Cost(other);
          if (cost.memory_mb <= 80'000.0) {
            least = std::min(least, cost.iteration_ms);
          }
          other.first.pop_back();
        }
        return;
      }
      for (std::size_t end = cut + 1; end < cuts.size(); ++end) {
        for (int each = 1; each <= left; each *= 2) {
          const auto choices = IntraOperator(
              model, cuts[cut], cuts[end], micro_batch, each, recompute);
          if (choices.empty()) {
            continue;
          }
          other.first.push_back(cuts[cut]);
          other.choices.insert(
              other.choices.end(), choices.begin(), choices.end());
          divide(end, left - each);
          other.first.pop_back();
          other.choices.resize(other.choices.size() - choices.size());
        }
      }
    };
    divide(0, 4);
  }
  EXPECT_NEAR(result.best->cost.iteration_ms / least, 1.0, 1e-9);
}

TEST(Alpa, LessMemoryTakesLongerOrHasNoPlan) {
  const auto whole = AlpaPlan(Model(8, 4, 80'000.0));
  ASSERT_TRUE(whole.best);
  const double limit_mb = 0.9 * whole.best->cost.memory_mb;
  const auto tight = AlpaPlan(Model(8, 4, limit_mb));
  ASSERT_TRUE(tight.best);
  EXPECT_LE(tight.best->cost.memory_mb, limit_mb);
  EXPECT_GT(tight.best->cost.iteration_ms, whole.best->cost.iteration_ms);
  EXPECT_FALSE(AlpaPlan(Model(8, 4, 1.0)).best);
}

}  // namespace
}  // namespace methods
