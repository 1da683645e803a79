#include "planners/aceso/search.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "tests/planners/aceso/small_model.h"

namespace planners::search_test {

constexpr double kUnlimited = 1e9;

TEST(SearchAceso, ImprovesInAtMostAsManyHopsAsAllowed) {
  int longest = 0;
  std::int64_t single_hops = 0;
  std::int64_t first_bottlenecks = 0;
  for (const double limit_mb : {150.0, 200.0, 300.0, kUnlimited}) {
    const OperatorModel model = SmallModel(6, 6, limit_mb);
    for (const int most_hops : {1, 2, 7}) {
      for (const AcesoTrace& trace :
           SearchAceso(model, {.most_hops = most_hops, .budget = 400}).traces) {
        ASSERT_EQ(trace.hops.size(), trace.bottlenecks.size());
        single_hops += std::count(trace.hops.begin(), trace.hops.end(), 1);
        first_bottlenecks +=
            std::count(trace.bottlenecks.begin(), trace.bottlenecks.end(), 1);
        for (std::size_t i = 0; i < trace.hops.size(); ++i) {
          EXPECT_GE(trace.hops[i], 1);
          EXPECT_LE(trace.hops[i], most_hops);
          EXPECT_GE(trace.bottlenecks[i], 1);
          EXPECT_LE(trace.bottlenecks[i], trace.stages);
          longest = std::max(longest, trace.hops[i]);
        }
        for (std::size_t i = 1; i < trace.progress.size(); ++i) {
          EXPECT_LT(trace.progress[i].iteration_ms,
                    trace.progress[i - 1].iteration_ms);
          EXPECT_GE(trace.progress[i].explored, trace.progress[i - 1].explored);
        }
      }
    }
  }
  EXPECT_GE(longest, 3);
  EXPECT_GE(single_hops, 1);
  EXPECT_GE(first_bottlenecks, 1);
}

// Each search keeps its plans that were the best when they were found.
TEST(SearchAceso, ReturnsTheFastestPlansOfAllNumbersOfStages) {
  const OperatorModel model = SmallModel(6, 4, 400.0);
  for (const int top : {1, 3, 50}) {
    const AcesoResult result = SearchAceso(model, {.budget = 400, .top = top});
    ASSERT_FALSE(result.best.empty());
    double fastest = std::numeric_limits<double>::infinity();
    std::size_t improvements = 0;
    for (const AcesoTrace& trace : result.traces) {
      improvements += trace.progress.size();
      if (!trace.progress.empty()) {
        fastest = std::min(fastest, trace.progress.back().iteration_ms);
      }
    }
    ASSERT_EQ(result.best.size(),
              std::min(static_cast<std::size_t>(top), improvements));
    EXPECT_EQ(result.best[0].cost.iteration_ms, fastest);
    for (std::size_t i = 0; i < result.best.size(); ++i) {
      EXPECT_LE(result.best[i].cost.memory_mb, 400.0);
      EXPECT_DOUBLE_EQ(model.Cost(result.best[i].plan).iteration_ms,
                       result.best[i].cost.iteration_ms);
      EXPECT_GE(result.best[i].cost.iteration_ms,
                result.best[i == 0 ? 0 : i - 1].cost.iteration_ms);
    }
  }
}

TEST(SearchAceso, WhereNothingFitsReturnsThePlanWithTheLeastMemory) {
  const OperatorModel model = SmallModel(4, 2, 10.0);
  const AcesoResult result = SearchAceso(model, {.budget = 300});
  EXPECT_TRUE(result.best.empty());
  ASSERT_EQ(result.least_memory.size(), 1u);
  for (const int stages : {1, 2}) {
    OperatorPlan even;
    ASSERT_TRUE(FirstPlan(model, stages, AcesoStart::kEven, false, even));
    FitRecomputation(model, even);
    EXPECT_LE(result.least_memory[0].cost.memory_mb,
              model.Cost(even).memory_mb);
  }
}

// Exp. 7: one layer in each stage but the last, or equally many operators and
// most GPUs in the last stages.
TEST(SearchAceso, StartsFromUnequalPlansEndAsFastAsFromEqualOnes) {
  const OperatorModel model = SmallModel(6, 4, 400.0);
  OperatorPlan plan;
  ASSERT_TRUE(FirstPlan(model, 3, AcesoStart::kUnevenOperators, false, plan));
  EXPECT_EQ(plan.first, (std::vector<int>{0, 4, 7, model.operators()}));
  ASSERT_TRUE(FirstPlan(model, 3, AcesoStart::kUnevenGpus, false, plan));
  EXPECT_EQ(plan.GpusOf(0), 1);
  EXPECT_EQ(plan.GpusOf(2), 2);
  const auto best_ms = [&model](AcesoStart start) {
    return SearchAceso(model, {.start = start, .budget = 2000})
        .best[0]
        .cost.iteration_ms;
  };
  const double even = best_ms(AcesoStart::kEven);
  EXPECT_NEAR(best_ms(AcesoStart::kUnevenOperators) / even, 1.0, 0.05);
  EXPECT_NEAR(best_ms(AcesoStart::kUnevenGpus) / even, 1.0, 0.05);
}

// Primitives in random order find what the heuristic order finds, in other
// orders for other seeds.
TEST(SearchAceso, ARandomOrderIsAFunctionOfTheSeed) {
  const OperatorModel model = SmallModel(6, 4, 400.0);
  const auto progress = [&](std::uint64_t seed) {
    std::vector<std::int64_t> explored;
    for (const AcesoTrace& trace :
         SearchAceso(model, {.budget = 300, .random_order = true, .seed = seed})
             .traces) {
      for (const AcesoProgress& each : trace.progress) {
        explored.push_back(each.explored);
      }
    }
    return explored;
  };
  EXPECT_EQ(progress(1), progress(1));
  EXPECT_NE(progress(1), progress(2));
  ASSERT_FALSE(progress(1).empty());
  const double heuristic =
      SearchAceso(model, {.budget = 2000}).best[0].cost.iteration_ms;
  const double random =
      SearchAceso(model, {.budget = 2000, .random_order = true})
          .best[0]
          .cost.iteration_ms;
  EXPECT_NEAR(random / heuristic, 1.0, 0.1);
}

}  // namespace planners::search_test
