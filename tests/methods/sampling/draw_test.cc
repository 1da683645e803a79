#include <cmath>
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "methods/sampling/random.h"

namespace methods::draw_test {

// One cell with one candidate, one with ninety-nine.
trials::SearchSpace Lopsided() {
  std::vector<trials::ParallelConfig> configs = {{.dp = 2}};
  for (int i = 0; i < 99; ++i) {
    configs.push_back({.pp = 2, .microbatches = i + 2});
  }
  return trials::SearchSpace(configs);
}

TEST(DrawByCell, DrawsEveryCellEquallyOften) {
  const trials::SearchSpace space = Lopsided();
  const std::vector<char> tried(100, 0);
  int small_cell = 0;
  constexpr int kDraws = 4000;
  for (int seed = 0; seed < kDraws; ++seed) {
    small_cell += Draw(DrawLaw::kCell, space, tried, seed, 0) == 0 ? 1 : 0;
  }
  // Half, within five standard deviations.
  EXPECT_NEAR(small_cell, kDraws / 2, 5 * 32);
}

// Chi-square over the 100 candidates, 99 degrees of freedom: mean 99, deviation
// 14.07. The limit is the quantile 0.9999.
TEST(DrawUniformly, DrawsEveryCandidateEquallyOften) {
  const trials::SearchSpace space = Lopsided();
  constexpr int kDraws = 20000;
  const auto chi_square = [&](DrawLaw law) {
    const std::vector<char> tried(100, 0);
    std::vector<int> counts(100, 0);
    for (int seed = 0; seed < kDraws; ++seed) {
      ++counts[Draw(law, space, tried, seed, 0)];
    }
    double sum = 0.0;
    for (const int count : counts) {
      sum += std::pow(count - kDraws / 100.0, 2) / (kDraws / 100.0);
    }
    return sum;
  };
  EXPECT_LT(chi_square(DrawLaw::kUniform), 161.3);
  EXPECT_GT(chi_square(DrawLaw::kCell), 10000.0);
}

TEST(DrawUniformly, DrawsEveryUntriedCandidateEquallyOften) {
  const trials::SearchSpace space = Lopsided();
  std::vector<char> tried(100, 1);
  tried[0] = tried[50] = tried[99] = 0;
  std::map<int, int> counts;
  for (int seed = 0; seed < 3000; ++seed) {
    ++counts[Draw(DrawLaw::kUniform, space, tried, seed, 3)];
  }
  EXPECT_EQ(counts.size(), 3U);
  for (const int candidate : {0, 50, 99}) {
    EXPECT_NEAR(counts[candidate], 1000, 5 * 26) << candidate;
  }
}

TEST(Draw, NeverRepeatsAndEndsWhenAllAreTried) {
  const trials::SearchSpace space = Lopsided();
  std::vector<char> tried(100, 0);
  for (int trial = 0; trial < 100; ++trial) {
    const int candidate = Draw(DrawLaw::kCell, space, tried, 7, trial);
    ASSERT_GE(candidate, 0);
    ASSERT_EQ(tried[candidate], 0);
    tried[candidate] = 1;
  }
  EXPECT_EQ(Draw(DrawLaw::kCell, space, tried, 7, 100), -1);
}

TEST(Draw, IsAFunctionOfSeedTrialAndHistory) {
  const trials::SearchSpace space = Lopsided();
  const std::vector<char> tried(100, 0);
  EXPECT_EQ(Draw(DrawLaw::kCell, space, tried, 3, 5),
            Draw(DrawLaw::kCell, space, tried, 3, 5));
  int differ = 0;
  for (int trial = 0; trial < 20; ++trial) {
    differ += Draw(DrawLaw::kCell, space, tried, 3, trial) !=
              Draw(DrawLaw::kCell, space, tried, 3, trial + 1);
  }
  EXPECT_GT(differ, 10);
}

}  // namespace methods::draw_test
