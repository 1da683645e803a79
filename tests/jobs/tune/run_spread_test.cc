#include "jobs/tune/run_spread.h"

#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace jobs::run_spread_test {

using Runs = std::vector<std::vector<double>>;

std::vector<double> Around(double mean, double deviation, int steps,
                           std::mt19937& random) {
  std::normal_distribution<double> normal(mean, deviation);
  std::vector<double> run;
  for (int i = 0; i < steps; ++i) {
    run.push_back(normal(random));
  }
  return run;
}

// 0.339 and 0.453 s.
TEST(RunSpread, RunsThatDifferMoreThanTheirStepsHaveASpread) {
  const RunSpread spread = SpreadOf({{0.453, 0.451}, {0.340, 0.338}});
  EXPECT_EQ(spread.runs, 2);
  EXPECT_NEAR(spread.range, 0.285, 0.005);
  EXPECT_NEAR(spread.variance, 0.2 * 0.2, 0.002);
  EXPECT_THAT(ToString(spread), testing::HasSubstr("varied by 29% in 2 runs"));
}

TEST(RunSpread, OneRunAndEqualRunsHaveNone) {
  EXPECT_EQ(SpreadOf({}).variance, 0.0);
  EXPECT_EQ(SpreadOf({{1.0, 2.0}}).variance, 0.0);
  EXPECT_EQ(SpreadOf({{1.0, 2.0}, {1.0, 2.0}, {}}).variance, 0.0);
  EXPECT_EQ(ToString(SpreadOf({{1.0, 1.1}, {1.05, 1.05}})), "");
}

// The preflight has one step, and step 2 is slow in each run.
TEST(RunSpread, ComparesTheStepsThatBothHave) {
  EXPECT_EQ(SpreadOf({{1.5}, {1.5, 1.0, 1.0, 1.0}}).range, 0.0);
  EXPECT_GT(SpreadOf({{1.5}, {1.0, 1.0, 1.0, 1.0}}).range, 0.3);
  EXPECT_EQ(SpreadOf({{1.5}, {1.0, 1.01, 1.0}, {1.0, 1.0, 1.01}}).runs, 2)
      << "two long runs tell more than a short one";
}

// No spread in 95 of 100 of independent steps, and one of the size that was put
// in.
TEST(RunSpread, StepsAloneRarelyLookLikeASpread) {
  std::mt19937 random(1);
  for (const int preflight : {1, 19}) {
    int found = 0;
    for (int i = 0; i < 1000; ++i) {
      found += SpreadOf({Around(1.0, 0.1, preflight, random),
                         Around(1.0, 0.1, 19, random)})
                           .variance > 0.0
                   ? 1
                   : 0;
    }
    EXPECT_GT(found, 20) << preflight;
    EXPECT_LT(found, 90) << preflight;
  }
  double sum = 0.0;
  for (int i = 0; i < 1000; ++i) {
    Runs runs;
    for (int run = 0; run < 3; ++run) {
      runs.push_back(Around(Around(1.0, 0.2, 1, random)[0], 0.02, 19, random));
    }
    sum += SpreadOf(runs).variance;
  }
  EXPECT_NEAR(sum / 1000.0, 0.04, 0.005);
}

}  // namespace jobs::run_spread_test
