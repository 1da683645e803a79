#include "planners/aceso/baselines.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "planners/aceso/conversions.h"
#include "tests/planners/aceso/small_model.h"
#include "tests/planners/profiled_layers.h"

namespace planners::baselines_test {

// All divisions of the operators from `begin` and of `gpus` GPUs into `stages`
// stages, whose lengths per GPU are near the mean; of these the one with the
// least time of the slowest stage, then the least sum.
class AllDivisions {
 public:
  AllDivisions(const OperatorModel& model,
               const DynamicProgrammingOptions& options, int micro_batch,
               int stages)
      : model_(model), options_(options) {
    plan_.micro_batch = micro_batch;
    plan_.choices.resize(model.operators());
    Divide(0, model.job().gpus, stages, 0.0, 0.0);
  }

  [[nodiscard]] const std::optional<OperatorPlan>& best() const {
    return best_;
  }

 private:
  void Divide(int begin, int gpus, int stages, double slowest, double sum) {
    if (stages == 0) {
      if (begin == model_.operators() && gpus == 0 &&
          (!best_ || std::pair(slowest, sum) < score_)) {
        best_ = plan_;
        best_->first.push_back(begin);
        score_ = {slowest, sum};
      }
      return;
    }
    for (int end = begin + 1; end <= model_.operators(); ++end) {
      if (end % options_.cut_every != 0 && end != model_.operators()) {
        continue;
      }
      for (int each = 1; each <= gpus; each *= 2) {
        const double mean = 1.0 * model_.operators() / model_.job().gpus;
        const double length = 1.0 * (end - begin) / each;
        if (length > options_.most_operators * mean * (1 + 1e-12) ||
            length < mean / options_.most_operators * (1 - 1e-12)) {
          continue;
        }
        const OperatorPlan before = plan_;
        OperatorPlan alone =
            plan_;  // with later stages, which keep microbatches
        alone.first = {begin};
        alone.first.resize(static_cast<std::size_t>(stages) + 1, end);
        if (ChooseSizes(model_, alone, 0, each)) {
          const auto cost = model_.Cost(model_.ViewOf(alone, 0));
          if (cost.memory_mb <= model_.job().memory_limit_mb) {
            plan_.choices = alone.choices;
            plan_.first.push_back(begin);
            Divide(end, gpus - each, stages - 1,
                   std::max(slowest, cost.total_ms()), sum + cost.total_ms());
          }
        }
        plan_ = before;
      }
    }
  }

  const OperatorModel& model_;
  const DynamicProgrammingOptions& options_;
  OperatorPlan plan_;
  std::optional<OperatorPlan> best_;
  std::pair<double, double> score_;
};

// Microbatches of the profiled sizes 1, 2 and 4 and of twice the largest.
std::optional<CostedPlan> BestDivision(
    const OperatorModel& model, const DynamicProgrammingOptions& options) {
  std::optional<CostedPlan> best;
  for (const int micro_batch : {1, 2, 4, 8}) {
    if (model.job().batch % micro_batch != 0) {
      break;
    }
    for (int stages = 1;
         stages <= std::min(options.most_stages, model.job().gpus); ++stages) {
      const AllDivisions all(model, options, micro_batch, stages);
      if (all.best()) {
        CostedPlan costed = Costed(model, *all.best());
        if (Fits(model, costed.cost) &&
            (!best || costed.cost.iteration_ms < best->cost.iteration_ms)) {
          best = std::move(costed);
        }
      }
    }
  }
  return best;
}

TEST(DynamicProgramming, IsTheBestOfAllDivisions) {
  std::vector<int> stages;
  for (const DynamicProgrammingOptions& options :
       {DynamicProgrammingOptions{.most_operators = 8.0},
        DynamicProgrammingOptions{.most_operators = 1.3},
        DynamicProgrammingOptions{.cut_every = 3, .most_operators = 2.0},
        DynamicProgrammingOptions{.most_stages = 2, .most_operators = 4.0}}) {
    for (const auto& [gpus, batch, limit_mb] :
         {std::tuple(2, 64, 1e9), std::tuple(4, 64, 1e9), std::tuple(4, 2, 1e9),
          std::tuple(2, 64, 300.0), std::tuple(4, 64, 200.0),
          std::tuple(3, 6, 220.0), std::tuple(4, 64, 160.0),
          std::tuple(6, 1, 1e9), std::tuple(8, 1, 1e9),
          std::tuple(4, 64, 120.0), std::tuple(1, 64, 100.0)}) {
      const OperatorModel model = SmallModel(2, gpus, limit_mb, batch);
      const auto expected = BestDivision(model, options);
      const auto found = DynamicProgramming(model, options);
      ASSERT_EQ(found.best.has_value(), expected.has_value());
      if (expected) {
        EXPECT_NEAR(found.best->cost.iteration_ms, expected->cost.iteration_ms,
                    1e-9 * expected->cost.iteration_ms)
            << gpus << " " << batch << " " << limit_mb << " "
            << options.most_operators;
        EXPECT_EQ(found.best->plan.first.size(), expected->plan.first.size());
        stages.push_back(found.best->plan.stages());
      }
    }
  }
  for (const int count : {1, 2, 3, 4}) {
    EXPECT_GT(std::count(stages.begin(), stages.end(), count), 0) << count;
  }
}

// Stages of equally many layers on equally many GPUs, a power of two.
TEST(MegatronGrid, IsTheBestOfAllUniformPlans) {
  int pipelines = 0;
  for (const auto& [gpus, layers, limit_mb] :
       {std::tuple(1, 4, 1e9), std::tuple(2, 4, 1e9), std::tuple(4, 6, 400.0),
        std::tuple(4, 6, 150.0), std::tuple(4, 3, 100.0),
        std::tuple(6, 6, 160.0), std::tuple(4, 4, 1.0)}) {
    const OperatorModel model = SmallModel(layers, gpus, limit_mb);
    double best_ms = 1e30;
    int plans = 0;
    for (int pp = 1; pp <= gpus; ++pp) {
      for (int tp = 1; tp * pp <= gpus; tp *= 2) {
        const int dp = gpus / pp / tp;
        for (const int each : {1, 2, 4}) {
          for (const int recomputation :
               {trials::kRecomputeNothing, trials::kRecomputeFull}) {
            if (dp * tp * pp != gpus || layers % pp != 0 ||
                64 % (dp * each) != 0) {
              continue;
            }
            const auto plan = PlanOf(model, {.dp = dp,
                                             .tp = tp,
                                             .pp = pp,
                                             .microbatches = 64 / (dp * each),
                                             .grad_checkpoint = recomputation});
            if (!plan) {
              continue;
            }
            ++plans;
            const auto cost = model.Cost(*plan);
            if (cost.memory_mb <= limit_mb) {
              best_ms = std::min(best_ms, cost.iteration_ms);
            }
          }
        }
      }
    }
    const BaselineResult grid = MegatronGrid(model);
    EXPECT_EQ(grid.explored, plans) << gpus << " " << layers;
    ASSERT_EQ(grid.best.has_value(), best_ms < 1e30);
    if (grid.best) {
      EXPECT_EQ(grid.best->cost.iteration_ms, best_ms);
      pipelines += grid.best->plan.stages() > 1 ? 1 : 0;
    }
  }
  EXPECT_GT(pipelines, 0);
}

// Four layers of an encoder, 1 ms each, and of a decoder, 3 ms each. Only four
// stages fit in memory: 4 layers cannot be three stages, so that two are left
// for each, of 2, 2, 6 and 6 ms.
TEST(MegatronGrid, AnEncoderAndADecoderHaveStagesOfTheirOwn) {
  std::vector<ProfiledOperator> rows;
  for (const auto& [name, us] : {std::pair("encoder-embedding", 0.0),
                                 {"enc-1st-layernorm", 1000.0},
                                 {"decoder-embedding", 0.0},
                                 {"dec-1st-layernorm", 3000.0},
                                 {"t5-post-process", 0.0}}) {
    rows.push_back(
        {name, 1, 1, 0, {.forward_us = us, .weights_mb = us / 1000.0}});
  }
  const OperatorModel model = ModelOfRows(
      rows, {.layers = 4, .batch = 4, .gpus = 4, .memory_limit_mb = 60.0});
  const BaselineResult grid = MegatronGrid(model);
  ASSERT_TRUE(grid.best);
  EXPECT_EQ(grid.best->plan.first, (std::vector<int>{0, 3, 5, 8, 11}));
  EXPECT_DOUBLE_EQ(grid.best->cost.iteration_ms, 16.0 + 3 * 6.0);
}

}  // namespace planners::baselines_test
