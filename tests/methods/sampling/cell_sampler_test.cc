#include "methods/sampling/cell_sampler.h"

#include <map>

#include <gtest/gtest.h>

namespace methods {
namespace {

// One cell with one candidate, one with ninety-nine.
trials::SearchSpace Lopsided() {
  std::vector<trials::ParallelConfig> configs = {{.dp = 2}};
  for (int i = 0; i < 99; ++i) {
    configs.push_back({.pp = 2, .microbatches = i + 2});
  }
  return trials::SearchSpace(configs);
}

TEST(DrawFromCells, DrawsEveryCellEquallyOften) {
  const trials::SearchSpace space = Lopsided();
  const std::vector<char> tried(100, 0);
  int small_cell = 0;
  constexpr int kDraws = 4000;
  for (int seed = 0; seed < kDraws; ++seed) {
    small_cell += DrawFromCells(space, tried, seed, 0) == 0 ? 1 : 0;
  }
  // Half, within five standard deviations.
  EXPECT_NEAR(small_cell, kDraws / 2, 5 * 32);
}

TEST(DrawFromCells, DrawsWithinACellEquallyOften) {
  const trials::SearchSpace space = Lopsided();
  const std::vector<char> tried(100, 0);
  std::map<int, int> counts;
  for (int seed = 0; seed < 19800; ++seed) {
    ++counts[DrawFromCells(space, tried, seed, 0)];
  }
  for (int i = 1; i < 100; ++i) {
    EXPECT_NEAR(counts[i], 100, 55) << i;
  }
}

TEST(DrawFromCells, NeverRepeatsAndEndsWhenAllAreTried) {
  const trials::SearchSpace space = Lopsided();
  std::vector<char> tried(100, 0);
  for (int trial = 0; trial < 100; ++trial) {
    const int candidate = DrawFromCells(space, tried, 7, trial);
    ASSERT_GE(candidate, 0);
    ASSERT_EQ(tried[candidate], 0);
    tried[candidate] = 1;
  }
  EXPECT_EQ(DrawFromCells(space, tried, 7, 100), -1);
}

TEST(DrawFromCells, IsAFunctionOfSeedTrialAndHistory) {
  const trials::SearchSpace space = Lopsided();
  const std::vector<char> tried(100, 0);
  EXPECT_EQ(DrawFromCells(space, tried, 3, 5),
            DrawFromCells(space, tried, 3, 5));
  int differ = 0;
  for (int trial = 0; trial < 20; ++trial) {
    differ += DrawFromCells(space, tried, 3, trial) !=
              DrawFromCells(space, tried, 3, trial + 1);
  }
  EXPECT_GT(differ, 10);
}

}  // namespace
}  // namespace methods
