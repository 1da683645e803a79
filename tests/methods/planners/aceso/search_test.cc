#include "methods/planners/aceso/search.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/methods/planners/aceso/small_model.h"

namespace methods {
namespace {

using surrogates::OperatorModel;
using surrogates::OperatorPlan;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr double kUnlimited = 1e9;

// The GPUs of each stage; none where there is no plan.
std::vector<int> GpusOfEvenPlan(int layers, int gpus, int stages) {
  const OperatorModel model = SmallModel(layers, gpus, kUnlimited);
  OperatorPlan plan;
  std::vector<int> found;
  if (EvenPlan(model, stages, plan)) {
    for (int stage = 0; stage < stages; ++stage) {
      found.push_back(plan.GpusOf(stage));
    }
    EXPECT_EQ(plan.micro_batch, 1);
  }
  return found;
}

// tp of 1 and 2 are profiled.
TEST(EvenPlan, DoublesTheFirstStagesUntilAllGpusAreUsed) {
  EXPECT_THAT(GpusOfEvenPlan(4, 3, 3), ElementsAre(1, 1, 1));
  EXPECT_THAT(GpusOfEvenPlan(4, 4, 3), ElementsAre(2, 1, 1));
  EXPECT_THAT(GpusOfEvenPlan(4, 5, 3), ElementsAre(2, 2, 1));
  EXPECT_THAT(GpusOfEvenPlan(4, 6, 3), ElementsAre(2, 2, 2));
  EXPECT_THAT(GpusOfEvenPlan(4, 7, 3), IsEmpty());
  EXPECT_THAT(GpusOfEvenPlan(4, 2, 3), IsEmpty());
  EXPECT_THAT(GpusOfEvenPlan(1, 5, 5), ElementsAre(1, 1, 1, 1, 1));
  EXPECT_THAT(GpusOfEvenPlan(1, 6, 6), IsEmpty());  // five operators
}

TEST(EvenPlan, HasStagesOfEquallyManyOperators) {
  const OperatorModel model = SmallModel(4, 4, kUnlimited);  // 14 operators
  OperatorPlan plan;
  ASSERT_TRUE(EvenPlan(model, 4, plan));
  EXPECT_THAT(plan.first, ElementsAre(0, 3, 6, 9, 14));
  for (const surrogates::OperatorChoice& choice : plan.choices) {
    EXPECT_EQ(choice, surrogates::OperatorChoice());
  }
}

TEST(SearchAceso, TracesEveryNumberOfStages) {
  const OperatorModel model = SmallModel(4, 6, 300.0);
  const AcesoResult all = SearchAceso(model, {.budget = 100});
  ASSERT_EQ(all.traces.size(), 6u);
  std::int64_t explored = 0;
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(all.traces[i].stages, static_cast<int>(i) + 1);
    explored += all.traces[i].explored;
  }
  EXPECT_EQ(all.explored(), explored);
  EXPECT_EQ(SearchAceso(model, {.most_stages = 2, .budget = 100}).traces.size(),
            2u);
  const AcesoResult two = SearchAceso(model, {.budget = 100, .top = 2});
  ASSERT_EQ(two.best.size(), 2u);
  EXPECT_EQ(two.best[0].plan, all.best[0].plan);
}

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

// Of all plans, a search of unlimited budget evaluates no more than there are,
// and a search of a limited one continues it: its progress is the beginning.
TEST(SearchAceso, ALargerBudgetContinuesTheSameSearch) {
  const OperatorModel model = SmallModel(4, 4, 400.0);
  const AcesoResult all = SearchAceso(model, {.budget = 3000});
  for (const int budget : {1, 10, 60, 300}) {
    const AcesoResult part = SearchAceso(model, {.budget = budget});
    for (std::size_t i = 0; i < part.traces.size(); ++i) {
      const AcesoTrace& trace = part.traces[i];
      if (trace.explored < budget) {  // it ended by itself
        EXPECT_EQ(trace.explored, all.traces[i].explored);
      }
      ASSERT_LE(trace.progress.size(), all.traces[i].progress.size());
      for (std::size_t j = 0; j < trace.progress.size(); ++j) {
        EXPECT_EQ(trace.progress[j].iteration_ms,
                  all.traces[i].progress[j].iteration_ms);
        EXPECT_EQ(trace.progress[j].explored,
                  all.traces[i].progress[j].explored);
      }
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
    ASSERT_TRUE(EvenPlan(model, stages, even));
    FitRecomputation(model, even);
    EXPECT_LE(result.least_memory[0].cost.memory_mb,
              model.Cost(even).memory_mb);
  }
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

}  // namespace
}  // namespace methods
