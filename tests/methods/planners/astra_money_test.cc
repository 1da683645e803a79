// Astra's cost mode.

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "methods/planners/astra/money.h"
#include "tests/fakes/decoders.h"

namespace methods::astra_money_test {

// Few microbatches and buckets, so that the spaces are small.
MoneyJob Job() {
  MoneyJob job;
  job.workload = fakes::Decoder{}.Workload();
  job.space.values = {{"dp_bucket_mb", {25}},
                      {"zero_bucket_mb", {24}},
                      {"overlap_zero_allgather", {0}},
                      {"microbatches", {8}},
                      {"model_chunks", {1}}};
  job.price_per_hour = 2.0;
  job.steps = 1000.0;
  return job;
}

TEST(AstraMoney, MoneyIsTimeTimesGpusTimesPrice) {
  const MoneyResult result = SearchMoney(Job(), 16, {});
  ASSERT_FALSE(result.pool.empty());
  for (const GpuStrategy& each : result.pool) {
    EXPECT_NEAR(each.money,
                1000.0 * each.step_time_s / 3600.0 * each.gpus * 2.0,
                1e-9 * each.money);
    EXPECT_EQ(each.config.dp * each.config.tp * each.config.pp, each.gpus);
  }
}

TEST(AstraMoney, AllClustersUpToTheLargestAreSearched) {
  const MoneyJob job = Job();
  std::int64_t strategies = 0;
  for (const int gpus : {2, 4, 8, 16}) {
    strategies +=
        trials::SearchSpace::Enumerate(job.workload, gpus, job.space).size();
  }
  const MoneyResult result = SearchMoney(job, 31, {});
  EXPECT_EQ(result.strategies, strategies);
  EXPECT_GT(result.fit, 0);
  EXPECT_LE(result.fit, result.strategies);
  EXPECT_THROW((void)SearchMoney(job, 1, {}), common::InputError);
}

// More GPUs are faster, and communicate more.
TEST(AstraMoney, LessMoneyBuysFewerGpusAndTakesLonger) {
  const MoneyResult result = SearchMoney(Job(), 64, {});
  std::set<int> sizes;
  for (std::size_t i = 1; i < result.pool.size(); ++i) {
    EXPECT_GE(result.pool[i].step_time_s, result.pool[i - 1].step_time_s);
    EXPECT_LE(result.pool[i].money, result.pool[i - 1].money);
  }
  for (const GpuStrategy& each : result.pool) {
    sizes.insert(each.gpus);
  }
  ASSERT_GE(sizes.size(), 2U);
  EXPECT_GT(result.pool.front().gpus, result.pool.back().gpus);
  EXPECT_LT(result.pool.front().step_time_s, result.pool.back().step_time_s);
}

TEST(AstraMoney, AModelThatDoesNotFitHasNoStrategy) {
  MoneyJob job = Job();
  job.memory_bytes = 1e8;
  const MoneyResult result = SearchMoney(job, 8, {});
  EXPECT_GT(result.strategies, 0);
  EXPECT_EQ(result.fit, 0);
  EXPECT_TRUE(result.pool.empty());
}

// Of equally fast strategies, the cheapest is the first.
TEST(OptimalPool, HasNoStrategyThatAnotherBeatsInBoth) {
  std::vector<GpuStrategy> all;
  for (int i = 0; i < 200; ++i) {
    all.push_back({.gpus = i,
                   .step_time_s = 1.0 + (i * 37) % 50,
                   .money = static_cast<double>((i * 53) % 61)});
  }
  const std::vector<GpuStrategy> pool = OptimalPool(all);
  for (const GpuStrategy& each : all) {
    const bool beaten =
        std::any_of(all.begin(), all.end(), [&](const GpuStrategy& other) {
          return other.step_time_s < each.step_time_s &&
                 other.money < each.money;
        });
    const bool in_pool = std::any_of(
        pool.begin(), pool.end(),
        [&](const GpuStrategy& other) { return other.gpus == each.gpus; });
    EXPECT_EQ(in_pool, !beaten) << each.gpus;
  }
  EXPECT_TRUE(std::is_sorted(pool.begin(), pool.end(),
                             [](const auto& a, const auto& b) {
                               return std::pair(a.step_time_s, a.money) <
                                      std::pair(b.step_time_s, b.money);
                             }));
}

}  // namespace methods::astra_money_test
