// Alpa's two levels, by enumeration.

#include "planners/alpa/alpa.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "planners/operators/analytic_operators.h"
#include "tests/planners/aceso/rugged_model.h"
#include "tests/planners/profiled_layers.h"

namespace planners::alpa_test {

OperatorModel Model(int layers, int gpus, double memory_limit_mb,
                    int batch = 16, double between_hosts_gb_per_s = 12.0) {
  return {AnalyticOperators({.largest_tp = 2}),
          LinkTable::Uniform(100.0, between_hosts_gb_per_s, 8),
          {.layers = layers,
           .batch = batch,
           .gpus = gpus,
           .gpus_per_node = gpus,
           .memory_limit_mb = memory_limit_mb}};
}

// The time of one microbatch of a stage without transfers.
double ChainMs(const OperatorModel& model,
               const std::vector<OperatorChoice>& choices, int micro_batch) {
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

// All sizes and both variants of the first five operators, which differ in cost
// without a pattern.
TEST(Alpa, NoOtherChoiceOfAChainWithVariantsIsFaster) {
  int variants = 0;
  int changes = 0;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const OperatorModel model = RuggedModel(seed, 1e9);
    for (const bool recompute : {false, true}) {
      for (const int gpus_log2 : {0, 1, 2}) {
        const auto best =
            IntraOperator(model, 0, 5, 4, 1 << gpus_log2, recompute);
        ASSERT_EQ(best.size(), 5u);
        double least = std::numeric_limits<double>::infinity();
        std::vector<OperatorChoice> choices(5);
        const std::function<void(std::size_t)> choose = [&](std::size_t i) {
          if (i == choices.size()) {
            least = std::min(least, ChainMs(model, choices, 4));
            return;
          }
          const bool recomputed = recompute && i > 0;  // not the embedding
          EXPECT_EQ(best[i].recomputed, recomputed ? 1 : 0);
          for (int tp = 0; tp <= gpus_log2; ++tp) {
            for (const int variant : {0, 1}) {
              choices[i] = {static_cast<std::uint8_t>(tp),
                            static_cast<std::uint8_t>(gpus_log2 - tp),
                            static_cast<std::uint8_t>(variant),
                            static_cast<std::uint8_t>(recomputed ? 1 : 0)};
              choose(i + 1);
            }
          }
        };
        choose(0);
        EXPECT_NEAR(ChainMs(model, best, 4) / least, 1.0, 1e-12);
        for (std::size_t i = 0; i < best.size(); ++i) {
          EXPECT_EQ(best[i].tp_log2 + best[i].dp_log2, gpus_log2);
          variants += best[i].variant;
          changes += i > 0 && best[i].tp_log2 != best[i - 1].tp_log2 ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(variants, 10);
  EXPECT_GT(changes, 10);
}

// The first operators of stages that may begin at any layer.
std::vector<int> CutsOf(const OperatorModel& model) {
  std::vector<int> cuts = {0};
  for (int op = 2; op < model.operators(); ++op) {
    if (model.TraitsOf(op).begins_layer) {
      cuts.push_back(op);
    }
  }
  cuts.push_back(model.operators());
  return cuts;
}

// The least time of all partitions into stages on 1, 2 or 4 GPUs that fit.
double LeastMs(const OperatorModel& model) {
  const std::vector<int> cuts = CutsOf(model);
  double least = std::numeric_limits<double>::infinity();
  // All sizes of microbatches, with and without recomputation.
  for (int variant = 0; 1 << (variant / 2) <= model.job().batch; ++variant) {
    const bool recompute = variant % 2 == 1;
    OperatorPlan plan;
    plan.micro_batch = 1 << (variant / 2);
    const std::function<void(std::size_t, int)> divide = [&](std::size_t cut,
                                                             int left) {
      if (cut + 1 == cuts.size()) {
        plan.first.push_back(model.operators());
        const auto cost = model.Cost(plan);
        if (left == 0 && cost.memory_mb <= model.job().memory_limit_mb) {
          least = std::min(least, cost.iteration_ms);
        }
        plan.first.pop_back();
        return;
      }
      for (std::size_t end = cut + 1; end < cuts.size(); ++end) {
        for (int each = 1; each <= left; each *= 2) {
          const auto choices = IntraOperator(model, cuts[cut], cuts[end],
                                             plan.micro_batch, each, recompute);
          if (choices.empty()) {
            continue;
          }
          plan.first.push_back(cuts[cut]);
          plan.choices.insert(plan.choices.end(), choices.begin(),
                              choices.end());
          divide(end, left - each);
          plan.first.pop_back();
          plan.choices.resize(plan.choices.size() - choices.size());
        }
      }
    };
    divide(0, model.job().gpus);
  }
  return least;
}

// With one microbatch the sum of the stages counts, with many the slowest one.
TEST(Alpa, ThePlanIsTheBestOfAllPartitionsThatFit) {
  int pipelines = 0;
  for (const int batch : {1, 2, 16}) {
    const auto roomy = AlpaPlan(Model(4, 4, 80'000.0, batch));
    ASSERT_TRUE(roomy.best);
    for (const double share : {1.0, 0.9, 0.7, 0.5, 0.4, 0.3}) {
      const OperatorModel model =
          Model(4, 4, share * roomy.best->cost.memory_mb, batch);
      const double least = LeastMs(model);
      const BaselineResult result = AlpaPlan(model);
      ASSERT_EQ(result.best.has_value(), std::isfinite(least)) << share;
      if (result.best) {
        EXPECT_NEAR(result.best->cost.iteration_ms / least, 1.0, 1e-9)
            << share << " batch " << batch;
        EXPECT_LE(result.best->cost.memory_mb, model.job().memory_limit_mb);
        pipelines += result.best->plan.stages() > 1 ? 1 : 0;
      }
    }
  }
  EXPECT_GT(pipelines, 0);
}

// On one host, only the end of the model uses the links between hosts.
TEST(Alpa, StagesOfOneHostDoNotUseSlowLinksBetweenHosts) {
  const double memory_mb = AlpaPlan(Model(4, 4, 1e6)).best->cost.memory_mb;
  int pipelines = 0;
  for (const double share : {0.7, 0.5, 0.4}) {
    const OperatorModel model = Model(4, 4, share * memory_mb, 16, 0.05);
    const BaselineResult result = AlpaPlan(model);
    const double least = LeastMs(model);
    ASSERT_EQ(result.best.has_value(), std::isfinite(least)) << share;
    if (result.best) {
      EXPECT_NEAR(result.best->cost.iteration_ms / least, 1.0, 1e-9) << share;
      pipelines += result.best->plan.stages() > 1 ? 1 : 0;
    }
  }
  EXPECT_GT(pipelines, 0);
}

}  // namespace planners::alpa_test
