// Aceso on a small model whose best plan is known, and on its published
// profiles.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "methods/planners/aceso/baselines.h"
#include "methods/planners/aceso/primitives.h"
#include "methods/planners/aceso/search.h"
#include "tests/methods/planners/aceso/small_model.h"

namespace methods::aceso_test {

using methods::OperatorModel;
using methods::OperatorPlan;

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

TEST(AcesoTest, PlansAreWholeFitAndAreSorted) {
  const OperatorModel model = SmallModel(8, 4, 900.0);
  const AcesoResult result = SearchAceso(model, {.budget = 500});
  ASSERT_FALSE(result.best.empty());
  double previous = 0.0;
  for (const CostedPlan& each : result.best) {
    EXPECT_LE(each.cost.memory_mb, 900.0);
    EXPECT_GE(each.cost.iteration_ms, previous);
    previous = each.cost.iteration_ms;
    EXPECT_NEAR(model.Cost(each.plan).iteration_ms, each.cost.iteration_ms,
                1e-9);
    int gpus = 0;
    for (int s = 0; s < each.plan.stages(); ++s) {
      gpus += each.plan.GpusOf(s);
    }
    EXPECT_EQ(gpus, 4);
    EXPECT_EQ(each.plan.first.front(), 0);
    EXPECT_EQ(each.plan.first.back(), model.operators());
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

TEST(AcesoTest, RecomputationTakesTheLargestActivationsFirst) {
  const OperatorModel unlimited = SmallModel(4, 1, 1e9);
  OperatorPlan plan;
  plan.first = {0, unlimited.operators()};
  plan.choices.resize(unlimited.operators());
  const double memory_mb = unlimited.Cost(plan).memory_mb;
  // One score operator (40 MB) is enough to save 1 MB, but it exists while its
  // layer is recomputed; a second one saves its memory.
  const OperatorModel model = SmallModel(4, 1, memory_mb - 1.0);
  FitRecomputation(model, plan);
  EXPECT_LE(model.Cost(plan).memory_mb, memory_mb - 1.0);
  int scores = 0;
  for (int op = 0; op < model.operators(); ++op) {
    const bool recomputed = plan.choices[op].recomputed != 0;
    const std::string& name = model.table().names()[model.NameOf(op)];
    scores += name == "enc-attention-score" && recomputed ? 1 : 0;
    EXPECT_TRUE(!recomputed || name == "enc-attention-score" ||
                name == "enc-MLP-gelu")
        << name;
  }
  EXPECT_EQ(scores, 2);
}

TEST(AcesoTest, TheBottleneckIsTheFullestStageOnlyWhileMemoryIsExceeded) {
  methods::PlanCost cost;
  cost.stages.resize(2);
  cost.stages[0].memory_mb = 200.0;
  cost.stages[1].memory_mb = 100.0;
  cost.stage_iteration_ms = {1.0, 2.0};
  cost.memory_mb = 200.0;
  EXPECT_EQ(BottlenecksOf(SmallModel(2, 2, 150.0), cost)[0], 0);
  EXPECT_EQ(BottlenecksOf(SmallModel(2, 2, 300.0), cost)[0], 1);
}

TEST(AcesoTest, PrimitivesThatReduceTheScarcestResourceComeFirst) {
  const OperatorModel model = SmallModel(2, 2, 1e9);
  methods::PlanCost cost;
  cost.stages.resize(2);
  cost.stages[0] = {.compute_ms = 10, .recompute_ms = 5, .ideal_ms = 10};
  cost.stages[1] = {.compute_ms = 10, .communicate_ms = 4, .ideal_ms = 10};
  cost.stage_iteration_ms = {1.0, 1.0};
  // Stage 0 has all recomputation: memory first. Stage 1 has all
  // communication.
  const auto memory = PrimitiveGroups(model, cost, 0)[0];
  EXPECT_NE(std::find(memory.begin(), memory.end(), PrimitiveKind::kIncTp),
            memory.end());
  EXPECT_EQ(std::find(memory.begin(), memory.end(), PrimitiveKind::kDecTp),
            memory.end());
  const auto communication = PrimitiveGroups(model, cost, 1)[0];
  EXPECT_EQ(communication,
            (std::vector{PrimitiveKind::kDecDp, PrimitiveKind::kDecTp}));
}

// Table 1: each pair is the opposite of the other; dp and tp need a partner's
// GPUs.
TEST(AcesoTest, PrimitivesAreFivePairsOfOpposites) {
  const auto primitives = Primitives();
  ASSERT_EQ(primitives.size(), 10u);
  for (std::size_t i = 0; i < 10; i += 2) {
    EXPECT_EQ(primitives[i].computation, -primitives[i + 1].computation);
    EXPECT_EQ(primitives[i].communication, -primitives[i + 1].communication);
    EXPECT_EQ(primitives[i].memory, -primitives[i + 1].memory);
    EXPECT_EQ(primitives[i].partner, primitives[i + 1].partner);
  }
}

TEST(AcesoTest, IncreasingGpusTakesThemFromAnotherStage) {
  const OperatorModel model = SmallModel(8, 4, 1e9);
  OperatorPlan plan;
  ASSERT_TRUE(EvenPlan(model, 2, plan));
  std::int64_t explored = 0;
  // Both stages have two GPUs: doubling one leaves none to the other.
  EXPECT_FALSE(
      Apply(model, Costed(model, plan), 0, PrimitiveKind::kIncTp, explored));
  ASSERT_TRUE(EvenPlan(model, 3, plan));
  const auto changed =
      Apply(model, Costed(model, plan), 1, PrimitiveKind::kIncTp, explored);
  ASSERT_TRUE(changed);
  EXPECT_EQ(changed->plan.GpusOf(1), 2);
  EXPECT_EQ(changed->plan.GpusOf(0) + changed->plan.GpusOf(2), 2);
}

TEST(AcesoTest, StagesAreReplicatedWhereTensorParallelismLeavesGpus) {
  const OperatorModel model = SmallModel(8, 64, 1e9);
  const int most_tp = model.table().largest_tp();
  OperatorPlan plan;
  EXPECT_FALSE(EvenPlan(model, 2, plan));
  ASSERT_TRUE(EvenPlan(model, 2, plan, true));
  for (const methods::OperatorChoice& choice : plan.choices) {
    EXPECT_EQ(1 << choice.tp_log2, most_tp);
    EXPECT_EQ(1 << choice.dp_log2, 32 / most_tp);
  }
  EXPECT_EQ(plan.micro_batch, 32 / most_tp);
  EXPECT_FALSE(SearchAceso(model, {.budget = 50}).best.empty());
}

TEST(AcesoTest, OneStartWithTensorParallelismIsEnough) {
  // 16 stages have one on 32 GPUs, and fewer stages are not searched.
  const OperatorModel model = SmallModel(8, 32, 1e9);
  for (const AcesoTrace& trace : SearchAceso(model, {.budget = 50}).traces) {
    EXPECT_EQ(trace.explored > 0, trace.stages == 16) << trace.stages;
  }
}

TEST(AcesoTest, DynamicProgrammingIsNotWorseThanTheGridOfEqualStages) {
  const OperatorModel model = SmallModel(8, 4, 900.0);
  const BaselineResult grid = MegatronGrid(model);
  const BaselineResult program =
      DynamicProgramming(model, {.most_operators = 8.0});
  const AcesoResult aceso = SearchAceso(model, {.budget = 1000});
  ASSERT_TRUE(grid.best && program.best);
  EXPECT_LE(program.best->cost.iteration_ms,
            grid.best->cost.iteration_ms * (1 + 1e-9));
  EXPECT_LE(aceso.best[0].cost.iteration_ms,
            grid.best->cost.iteration_ms * (1 + 1e-9));
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
        methods::OperatorTable::Read(folder / "aceso_v100_op_profiles.csv",
                                     problem.model),
        methods::LinkTable::Read(folder / "aceso_v100_collectives.csv",
                                 problem.model),
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

TEST(AcesoTest, TheBudgetEndsTheSearch) {
  const OperatorModel model = SmallModel(8, 4, 900.0);
  const auto most_of_a_trace = [&](int budget) {
    std::int64_t most = 0;
    for (const AcesoTrace& trace :
         SearchAceso(model, {.budget = budget, .fine_tune = false}).traces) {
      most = std::max(most, trace.explored);
    }
    return most;
  };
  // A hop that has begun explores what its primitives lead to.
  EXPECT_LT(most_of_a_trace(10), 10 + 150);
  EXPECT_GE(most_of_a_trace(400), 400);
}

}  // namespace methods::aceso_test
