// Aceso on a small model whose best plan is known, and on its published
// profiles.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "planners/aceso/baselines.h"
#include "planners/aceso/search.h"
#include "tests/planners/aceso/small_model.h"

namespace planners::aceso_test {

// The best plan of two stages on two GPUs: every cut and microbatch size.
double BestOfTwoStages(const OperatorModel& model) {
  double best = 1e30;
  for (const int micro_batch : {1, 2, 4}) {
    for (int cut = 1; cut < model.operators(); ++cut) {
      OperatorPlan plan;
      plan.micro_batch = micro_batch;
      plan.first = {0, cut, model.operators()};
      plan.choices.resize(model.operators());
      FitRecomputation(model, plan);
      const auto cost = model.Cost(plan);
      if (Fits(model, cost)) {
        best = std::min(best, cost.iteration_ms);
      }
    }
  }
  return best;
}

TEST(AcesoTest, FindsTheBestOfTwoStagesByEnumeration) {
  for (const double limit_mb : {700.0, 1000.0, 5000.0}) {
    const OperatorModel model = SmallModel(6, 2, limit_mb);
    const AcesoResult result = SearchAceso(model, {.budget = 500});
    ASSERT_FALSE(result.best.empty()) << limit_mb;
    double best = 1e30;
    for (const AcesoTrace& trace : result.traces) {
      if (trace.stages == 2 && !trace.progress.empty()) {
        best = trace.progress.back().iteration_ms;
      }
    }
    EXPECT_NEAR(best, BestOfTwoStages(model), 1e-9) << limit_mb;
  }
}

TEST(AcesoTest, ThreadsDoNotChangeTheResult) {
  const OperatorModel model = SmallModel(8, 4, 900.0);
  const AcesoResult one = SearchAceso(model, {.budget = 300});
  const AcesoResult two = SearchAceso(model, {.budget = 300, .threads = 2});
  ASSERT_EQ(one.best.size(), two.best.size());
  for (std::size_t i = 0; i < one.best.size(); ++i) {
    EXPECT_EQ(one.best[i].plan, two.best[i].plan);
  }
}

TEST(AcesoTest, StagesAreReplicatedWhereTensorParallelismLeavesGpus) {
  const OperatorModel model = SmallModel(8, 64, 1e9);
  const int most_tp = model.table().largest_tp();
  OperatorPlan plan;
  EXPECT_FALSE(FirstPlan(model, 2, AcesoStart::kEven, false, plan));
  ASSERT_TRUE(FirstPlan(model, 2, AcesoStart::kEven, true, plan));
  for (const OperatorChoice& choice : plan.choices) {
    EXPECT_EQ(1 << choice.tp_log2, most_tp);
    EXPECT_EQ(1 << choice.dp_log2, 32 / most_tp);
  }
  EXPECT_EQ(plan.micro_batch, 32 / most_tp);
  EXPECT_FALSE(SearchAceso(model, {.budget = 50}).best.empty());
}

// The published program needs 1 to 80 s of its budget for these estimates (GPT
// with 1,024 sequences per iteration, at most 28,000 MB).
TEST(AcesoTest, PlansOnPublishedProfilesAreAsFastAsThePublishedOnes) {
  const char* data = std::getenv("OPPA_DATA");
  if (data == nullptr) {
    GTEST_SKIP() << "OPPA_DATA is not set";
  }
  const std::filesystem::path folder(std::string(data) + "/published");
  struct Problem {
    const char* model;
    int layers;
    int gpus;
    double published_s;
  };
  for (const Problem& problem :
       {Problem{"gpt_1_3B", 24, 4, 101.18}, Problem{"gpt_1_3B", 24, 8, 50.92},
        Problem{"gpt_6_7B", 32, 16, 87.32},
        Problem{"gpt_13B", 40, 32, 84.61}}) {
    const OperatorModel model(
        OperatorTable::Read(folder / "aceso_v100_op_profiles.csv",
                            problem.model),
        LinkTable::Read(folder / "aceso_v100_collectives.csv", problem.model),
        {.layers = problem.layers,
         .batch = 1024,
         .gpus = problem.gpus,
         .gpus_per_node = std::min(8, problem.gpus),
         .memory_limit_mb = 28'000.0});
    const AcesoResult result = SearchAceso(model, {.budget = 500});
    ASSERT_FALSE(result.best.empty());
    EXPECT_LE(result.best[0].cost.iteration_ms * 1e-3, problem.published_s)
        << problem.model;
  }
}

// Two GPUs take 0.6 of the time by tensor parallelism and half of it by data
// parallelism, where gradients are small.
TEST(AcesoTest, FineTuningExchangesTensorForDataParallelismWhereThatIsFaster) {
  const OperatorModel model = SmallModel(6, 2, 5000.0);
  OperatorPlan plan;
  plan.micro_batch = 4;
  plan.first = {0, model.operators()};
  plan.choices.assign(model.operators(), {.tp_log2 = 1});
  const CostedPlan tensor = Costed(model, plan);
  std::int64_t explored = 0;
  const CostedPlan tuned = FineTune(model, tensor, explored);
  EXPECT_GT(explored, 0);
  EXPECT_LT(tuned.cost.iteration_ms, 0.95 * tensor.cost.iteration_ms);
  EXPECT_TRUE(Fits(model, tuned.cost));
  EXPECT_EQ(tuned.plan.GpusOf(0), 2);
  EXPECT_EQ(tuned.plan.first, plan.first);
  EXPECT_NEAR(model.Cost(tuned.plan).iteration_ms, tuned.cost.iteration_ms,
              1e-9);
  const auto exchanged = std::count_if(
      tuned.plan.choices.begin(), tuned.plan.choices.end(),
      [](const auto& c) { return c.tp_log2 == 0 && c.dp_log2 == 1; });
  EXPECT_GT(exchanged, 0);
}

}  // namespace planners::aceso_test
