#include "methods/confidence.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace methods::confidence_test {

constexpr Assumption kAssumption{
    .rkhs_bound = 2.0, .delta = 0.1, .rounds = 50, .q_max = 20};

TEST(Confidence, TerminationMarginIsEquation56) {
  const double c1 = std::sqrt(2.0 * std::log(2.0 * 50.0 * 20.0 / 0.1));
  EXPECT_DOUBLE_EQ(RunningMeanFactor(kAssumption), c1);
  EXPECT_DOUBLE_EQ(TerminationMargin(kAssumption, 0.3, 4, 9),
                   c1 * 0.3 * (0.5 + 1.0 / 3.0));
}

// Eq. 32 with one observation: det(k + s^2) / det(s^2) = 1 + k / s^2.
TEST(Confidence, BetaIsEquation32) {
  const double k_over_s2 = 9.0;
  const double gain = 0.5 * std::log(1.0 + k_over_s2);
  const double printed = 2.0 + std::sqrt(2.0 * std::log(std::sqrt(10.0) / 0.1));
  EXPECT_NEAR(ConfidenceBeta(kAssumption, gain), printed, 1e-12);
}

// Lemma F.7, by simulation: of runs of 50 rounds of 20 repetitions at most a
// tenth leaves the band anywhere.
TEST(Confidence, RunningMeansStayWithinTheBandAsOftenAsPromised) {
  std::mt19937_64 engine(1);
  std::normal_distribution<double> noise;
  const double factor = RunningMeanFactor(kAssumption);
  int left = 0;
  constexpr int kRuns = 400;
  for (int run = 0; run < kRuns; ++run) {
    bool outside = false;
    for (int round = 0; round < kAssumption.rounds; ++round) {
      double sum = 0.0;
      for (int q = 1; q <= kAssumption.q_max; ++q) {
        sum += noise(engine);
        outside |= std::abs(sum / q) > factor / std::sqrt(q);
      }
    }
    left += outside ? 1 : 0;
  }
  EXPECT_LE(left, kRuns / 10);
}

// Without noise the printed bound would say that nothing is ever lost.
TEST(Confidence, ThePrintedRegretBoundVanishesWithTheNoiseTheOtherDoesNot) {
  const double beta = 5.0;
  double last = 1e9;
  for (const double noise : {1.0, 1e-2, 1e-4, 1e-8}) {
    const double printed = PrintedRegretBound(noise, beta, 10, 20.0, 1);
    EXPECT_LT(printed, last);
    last = printed;
    EXPECT_GT(RegretBound(noise, beta, 10, 20.0, 1, 1.0), beta * 2.0);
  }
  EXPECT_LT(last, 1e-4);
}

// Both deviations and the bound are in the unit of the target.
TEST(Confidence, TheRegretBoundHasTheUnitOfTheTarget) {
  const double bound = RegretBound(0.3, 5.0, 10, 20.0, 2, 1.5);
  EXPECT_NEAR(RegretBound(0.3 * 4.0, 5.0, 10, 20.0, 2, 1.5 * 16.0), 4.0 * bound,
              1e-9);
}

// Where the noise is large they are the same: log(1 + x) = x - ...
TEST(Confidence, TheBoundsAgreeWhereNoiseOutweighsTheKernel) {
  EXPECT_NEAR(RegretBound(100.0, 3.0, 10, 2.0, 2, 1.0) /
                  PrintedRegretBound(100.0, 3.0, 10, 2.0, 2),
              1.0, 1e-4);
}

}  // namespace methods::confidence_test
