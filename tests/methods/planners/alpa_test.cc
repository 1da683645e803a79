// Alpa's two levels, by enumeration.

#include "methods/planners/alpa/alpa.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "methods/planners/operators/analytic_operators.h"
#include "tests/methods/planners/aceso/rugged_model.h"
#include "tests/methods/planners/profiled_layers.h"

namespace methods::alpa_test {

using methods::OperatorChoice;
using methods::OperatorModel;
using methods::OperatorPlan;

OperatorModel Model(int layers, int gpus, double memory_limit_mb,
                    int batch = 16, double between_hosts_gb_per_s = 12.0) {
  return {methods::AnalyticOperators({.largest_tp = 4}),
          methods::LinkTable::Uniform(100.0, between_hosts_gb_per_s),
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
      choices[i] = {tp, static_cast<std::uint8_t>(2 - tp), 0,
                    best[i].recomputed};
      choose(i + 1);
    }
  };
  choose(0);
  EXPECT_NEAR(ChainMs(model, best, 4) / least, 1.0, 1e-12);
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

// Stages of one or both clusters of layers, for each size of a microbatch up to
// 8 sequences on each GPU, with and without recomputation, on each submesh.
TEST(Alpa, ExploresEveryStageOnEverySubmesh) {
  const auto explored = [](int gpus, int gpus_per_node, int batch,
                           int clusters) {
    const OperatorModel model(methods::AnalyticOperators({.largest_tp = 4}),
                              methods::LinkTable::Uniform(100.0, 12.0),
                              {.layers = 4,
                               .batch = batch,
                               .gpus = gpus,
                               .gpus_per_node = gpus_per_node,
                               .memory_limit_mb = 1e6});
    const BaselineResult result = AlpaPlan(model, {.clusters = clusters});
    EXPECT_TRUE(!result.best || result.best->plan.stages() <= clusters);
    return result.explored;
  };
  // Microbatches of 1 to 8 sequences.
  EXPECT_EQ(explored(1, 1, 64, 2), 4 * 2 * 3 * 1);
  EXPECT_EQ(explored(4, 4, 64, 2), 6 * 2 * 3 * 3);
  EXPECT_EQ(explored(4, 2, 64, 2), 6 * 2 * 3 * 3);
  EXPECT_EQ(explored(4, 4, 8, 2), 4 * 2 * 3 * 3);
  EXPECT_EQ(explored(4, 4, 64, 16), 6 * 2 * 10 * 3);
  // 4 GPUs are neither within a host of 3 nor whole hosts.
  EXPECT_EQ(explored(6, 3, 1, 2), 1 * 2 * 3 * 2);
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

// What precedes the layers takes no time. Each layer takes ms[k] on 2^k GPUs by
// tensor parallelism, backward included; negative: not profiled. The batch is
// one sequence.
struct Layers {
  int layers = 2;
  int gpus = 2;
  int gpus_per_node = 2;
  std::vector<double> ms;
  double first_input_mb = 0.0;
  double input_mb = 0.0;

  [[nodiscard]] OperatorModel Model() const {
    std::vector<methods::ProfiledOperator> rows;
    for (std::size_t k = 0; k < ms.size(); ++k) {
      const int tp = 1 << k;
      rows.push_back({kFirst, 1, tp, 0, {.input_mb = first_input_mb}});
      rows.push_back(
          ms[k] < 0.0 ? Unprofiled(kLayer, 1, tp)
                      : methods::ProfiledOperator{kLayer,
                                                  1,
                                                  tp,
                                                  0,
                                                  {.forward_us = 400.0 * ms[k],
                                                   .backward_us = 600.0 * ms[k],
                                                   .input_mb = input_mb}});
    }
    return ModelOfRows(rows, {.layers = layers,
                              .batch = 1,
                              .gpus = gpus,
                              .gpus_per_node = gpus_per_node,
                              .memory_limit_mb = 1e6});
  }
};

// The stages of the best plan; 0 if there is none.
int StagesOf(const Layers& layers) {
  const BaselineResult result = AlpaPlan(layers.Model());
  return result.best ? result.best->plan.stages() : 0;
}

// One stage of 5 ms beats two of 3 ms each, however long a ms is.
TEST(AlpaStages, OfOneMicrobatchCountWithTheirSumOnly) {
  for (const double unit : {1.0, 1e-3, 1e2}) {
    EXPECT_EQ(StagesOf({.ms = {3.0 * unit, 2.5 * unit}}), 1) << unit;
    EXPECT_EQ(StagesOf({.ms = {3.0 * unit, 3.5 * unit}}), 2) << unit;
  }
}

// 10 MB take 0.1 ms within a host and 10 ms between hosts.
TEST(AlpaStages, OfWholeHostsReceiveBetweenHosts) {
  // Two stages of 3 ms with a transfer, or one of 10 ms.
  EXPECT_EQ(StagesOf({.gpus = 4, .ms = {-1.0, 3.0, 5.0}, .input_mb = 10.0}), 1);
  EXPECT_EQ(StagesOf({.gpus = 4,
                      .gpus_per_node = 4,
                      .ms = {-1.0, 3.0, 5.0},
                      .input_mb = 10.0}),
            2);
}

TEST(AlpaStages, WithinAHostReceiveWithinIt) {
  EXPECT_EQ(StagesOf({.ms = {3.0, 5.0}, .input_mb = 10.0}), 2);
}

TEST(AlpaStages, TheInputOfTheModelIsOnItsHost) {
  EXPECT_EQ(StagesOf({.ms = {3.0, 2.5}, .first_input_mb = 10.0}), 1);
}

TEST(AlpaStages, MayBeAsManyAsTheLayers) {
  EXPECT_EQ(StagesOf({.ms = {3.0}}), 2);
  EXPECT_EQ(StagesOf({.layers = 1, .gpus = 1, .ms = {3.0}}), 1);
}

TEST(AlpaStages, UseAllGpusEvenIfFewerAreFaster) {
  const BaselineResult result =
      AlpaPlan(Layers{.layers = 1, .ms = {3.0, 5.0}}.Model());
  ASSERT_TRUE(result.best);
  EXPECT_EQ(result.best->plan.GpusOf(0), 2);
}

// 10 us forward with tensor parallelism, or 10.5 us backward without it.
TEST(AlpaChoices, CountTheForwardPassOnceOrTwice) {
  const auto tp_log2 = [](double forward_us, double backward_us, bool twice) {
    const OperatorModel model =
        ModelOfRows({{kLayer, 1, 1, 0, {.backward_us = backward_us}},
                     {kLayer, 2, 2, 0, {.forward_us = forward_us}}},
                    {.batch = 2, .gpus = 2, .gpus_per_node = 2});
    return IntraOperator(model, 0, 1, 2, 2, twice).at(0).tp_log2;
  };
  EXPECT_EQ(tp_log2(10.0, 10.5, false), 1);
  EXPECT_EQ(tp_log2(10.0, 9.5, false), 0);
  EXPECT_EQ(tp_log2(10.0, 20.5, true), 1);
  EXPECT_EQ(tp_log2(10.0, 19.5, true), 0);
}

}  // namespace methods::alpa_test
