// Astra's equations, by hand and by enumeration.

#include <algorithm>
#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "methods/planners/astra/astra_model.h"
#include "methods/planners/astra/heterogeneous.h"

namespace methods::astra_test {

const std::vector<AstraGpuType> kTypes = {{.name = "A800",
                                           .limit = 16,
                                           .layer_ms = 3.0,
                                           .transfer_ms = 0.5,
                                           .most_layers = 12,
                                           .price_per_hour = 2.0},
                                          {.name = "H100",
                                           .limit = 8,
                                           .layer_ms = 1.0,
                                           .transfer_ms = 0.2,
                                           .most_layers = 12,
                                           .price_per_hour = 5.0}};

TEST(AstraTest, APipelineTakesAllStagesAndTheSlowestForEachFurtherMicrobatch) {
  const std::array<double, 3> stages = {2.0, 5.0, 3.0};
  EXPECT_DOUBLE_EQ(PipelineTime(stages, 1), 10.0);
  EXPECT_DOUBLE_EQ(PipelineTime(stages, 4), 10.0 + 3 * 5.0);
}

TEST(AstraTest, TheSearchFindsTheFastestOfAllAssignments) {
  // tp 2 and dp 2: at most 4 stages of A800 and 2 of H100.
  const HeterogeneousJob job{
      .layers = 24, .stages = 4, .tp = 2, .dp = 2, .microbatches = 8};
  const HeterogeneousResult result = SearchHeterogeneous(job, kTypes);
  double best = 1e30;
  int solutions = 0;
  for (int m = 0; m <= 4; ++m) {  // A800
    for (int n = m > 0 ? 1 : 0; n <= (m > 0 ? 12 : 0); ++n) {
      const int h = 4 - m;
      if (h > 2 || (h > 0 && (24 - m * n) % h != 0)) {
        continue;
      }
      const int k = h > 0 ? (24 - m * n) / h : 0;
      if (m * n + h * k != 24 || k > 12 || (h > 0 && k < 1)) {
        continue;
      }
      ++solutions;
      const double a = 3.0 * n + 0.5;
      const double b = 1.0 * k + 0.2;
      best = std::min(
          best, m * a + h * b + 7 * std::max(m > 0 ? a : 0.0, h > 0 ? b : 0.0));
    }
  }
  ASSERT_TRUE(result.best);
  EXPECT_EQ(result.solutions, solutions);
  EXPECT_DOUBLE_EQ(result.best->ms, best);
  // The faster type has more layers.
  EXPECT_GT(result.best->shares[1].layers, result.best->shares[0].layers);
}

// Either type alone; neither a stage without layers.
TEST(AstraTest, AStageIsOfOneTypeAndHasALayer) {
  const HeterogeneousResult one =
      SearchHeterogeneous({.layers = 4, .stages = 1, .tp = 1, .dp = 1}, kTypes);
  EXPECT_EQ(one.solutions, 2);
  ASSERT_TRUE(one.best);
  EXPECT_EQ(one.best->shares[0].stages, 0);
  EXPECT_EQ(one.best->shares[1].layers, 4);
  // Two and two layers on either type; 1 + 3, 2 + 2 and 3 + 1 on both.
  EXPECT_EQ(
      SearchHeterogeneous({.layers = 4, .stages = 2, .tp = 1, .dp = 1}, kTypes)
          .solutions,
      2 + 3);
}

TEST(AstraTest, OfEquallyFastStrategiesTheCheapestIsFirst) {
  const std::vector<Strategy> pool =
      OptimalPool({{.samples_per_s = 10.0, .money = 5.0, .id = 0},
                   {.samples_per_s = 10.0, .money = 3.0, .id = 1},
                   {.samples_per_s = 20.0, .money = 4.0, .id = 2}});
  ASSERT_EQ(pool.size(), 2U);
  EXPECT_EQ(pool[0].id, 2);
  EXPECT_EQ(pool[1].id, 1);
  const std::vector<Strategy> equal =
      OptimalPool({{.samples_per_s = 10.0, .money = 5.0, .id = 0},
                   {.samples_per_s = 10.0, .money = 3.0, .id = 1}});
  ASSERT_EQ(equal.size(), 2U);
  EXPECT_EQ(equal[0].id, 1);
}

TEST(AstraTest, TooFewGpusHaveNoSolution) {
  const HeterogeneousJob job{.layers = 24, .stages = 8, .tp = 2, .dp = 2};
  EXPECT_FALSE(SearchHeterogeneous(job, kTypes).best);
  EXPECT_THROW((void)SearchHeterogeneous({.layers = 24}, kTypes),
               common::InputError);
}

TEST(AstraTest, ThePoolHasNoStrategyThatAnotherBeatsInBoth) {
  std::vector<Strategy> all;
  for (int i = 0; i < 200; ++i) {
    all.push_back({.samples_per_s = static_cast<double>((i * 37) % 50),
                   .money = static_cast<double>((i * 53) % 61),
                   .id = i});
  }
  const std::vector<Strategy> pool = OptimalPool(all);
  for (const Strategy& each : all) {
    const bool beaten =
        std::any_of(all.begin(), all.end(), [&](const Strategy& other) {
          return other.samples_per_s > each.samples_per_s &&
                 other.money < each.money;
        });
    const bool in_pool =
        std::any_of(pool.begin(), pool.end(),
                    [&](const Strategy& other) { return other.id == each.id; });
    EXPECT_EQ(in_pool, !beaten) << each.id;
  }
  for (std::size_t i = 1; i < pool.size(); ++i) {
    EXPECT_GE(pool[i - 1].samples_per_s, pool[i].samples_per_s);
  }
  const auto chosen = WithinLimit(pool, 10.0);
  ASSERT_TRUE(chosen);
  for (const Strategy& each : all) {
    EXPECT_TRUE(each.money > 10.0 ||
                each.samples_per_s <= chosen->samples_per_s);
  }
}

}  // namespace methods::astra_test
