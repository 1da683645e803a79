#include "surrogates/cost/shared_scale.h"

#include <cmath>
#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

namespace surrogates::shared_scale_test {

// m = s c_1 x + c_2, the second coefficient absolute.
ParametricMean Mean(ParametricMean::Link link) {
  ParametricMean mean;
  mean.link = link;
  mean.features.resize(4, 2);
  mean.features.col(0) << 1.0, 2.0, 4.0, 8.0;
  mean.features.col(1).setOnes();
  mean.coefficients = {{"size", std::log(2.0), 0.5, false},
                       {"latency", std::log(0.1), 0.5, true}};
  mean.shared_scale = SharedScale{0.0, 3.0};
  return mean;
}

double AtScale(double scale, double feature) {
  return scale * 2.0 * feature + 0.1;
}

TEST(MatchSharedScale, FindsTheScaleOfTimesBehindThroughputs) {
  const ParametricMean mean = Mean(ParametricMean::Link::kInverse);
  const double scale = MatchSharedScale(
      mean,
      {{0, 2},
       Eigen::Vector2d(1.0 / AtScale(40.0, 1.0), 1.0 / AtScale(40.0, 4.0)),
       Eigen::Vector2d::Zero()});
  EXPECT_NEAR(scale, std::log(40.0), 0.1);  // its belief pulls a little
}

TEST(MatchSharedScale, LearnsFromAFailureOnlyWhereItExpectedNone) {
  ParametricMean mean = Mean(ParametricMean::Link::kLinear);
  mean.clip = 1.1;
  mean.shared_scale = SharedScale{std::log(0.2), 1.7};
  const auto after = [&](int candidate) {
    return MatchSharedScale(mean, {{candidate},
                                   Eigen::VectorXd::Constant(1, 1.1),
                                   Eigen::VectorXd::Zero(1)});
  };
  EXPECT_GT(after(0), std::log(0.3));          // 0.5 of the memory by the guess
  EXPECT_NEAR(after(3), std::log(0.2), 1e-9);  // 3.3 of it
}

TEST(MatchSharedScale, FallsWhereWhatItExpectedToFailRan) {
  ParametricMean mean = Mean(ParametricMean::Link::kLinear);
  mean.clip = 1.1;
  mean.shared_scale = SharedScale{std::log(0.2), 1.7};
  const double ran = MatchSharedScale(mean, {}, {3});  // 3.3 by the guess
  EXPECT_LT(AtScale(std::exp(ran), 8.0), 1.1);
  EXPECT_NEAR(MatchSharedScale(mean, {}, {0}), std::log(0.2), 1e-9);
}

TEST(MatchSharedScale, IsTheBeliefWithoutObservations) {
  EXPECT_EQ(MatchSharedScale(Mean(ParametricMean::Link::kInverse), {}), 0.0);
  ParametricMean mean = Mean(ParametricMean::Link::kInverse);
  mean.shared_scale.reset();
  EXPECT_THROW((void)MatchSharedScale(mean, {}), std::invalid_argument);
}

// m = exp(s), measured as exp(log_measured) `times` times, with the prior
// N(0, stddev^2) of s.
double MatchedAlone(double log_measured, double stddev, int times = 1) {
  ParametricMean mean;
  mean.link = ParametricMean::Link::kLinear;
  mean.features = Eigen::MatrixXd::Ones(1, 1);
  mean.coefficients = {{"size", 0.0, 0.5, false}};
  mean.shared_scale = SharedScale{0.0, stddev};
  return MatchSharedScale(
      mean, {std::vector<int>(static_cast<std::size_t>(times), 0),
             Eigen::VectorXd::Constant(times, std::exp(log_measured)),
             Eigen::VectorXd::Zero(times)});
}

// With the deviation e = 0.3 of the error as that of the prior, the minimum of
// s^2 / 2 + huber((s - t) / e) e^2 is half-way to t if that is within e of it.
// Beyond, the pull is that of e.
TEST(MatchSharedScale, IsPulledByAMeasurementAsHubersLossSays) {
  for (const double sign : {-1.0, 1.0}) {
    EXPECT_NEAR(MatchedAlone(0.4 * sign, 0.3), 0.2 * sign, 1e-4);
    EXPECT_NEAR(MatchedAlone(0.58 * sign, 0.3), 0.29 * sign, 1e-4);
    EXPECT_NEAR(MatchedAlone(0.615 * sign, 0.3), 0.3 * sign, 1e-4);
    EXPECT_NEAR(MatchedAlone(5.0 * sign, 0.3), 0.3 * sign, 1e-4);
  }
  EXPECT_NEAR(MatchedAlone(5.0, 0.15), 0.15 * 0.15 / 0.3, 1e-4);
  EXPECT_NEAR(MatchedAlone(0.4, 0.3, 2), 0.8 / 3.0, 1e-4);
}

// Far beyond them, and many times: six deviations, and one of the 300 steps
// between both ends for the finer search.
TEST(MatchSharedScale, StaysWithinSixDeviationsAndAStepOfThePrior) {
  constexpr double kMost = 6.0 + 2.0 * 6.0 / 300.0;
  EXPECT_NEAR(MatchedAlone(50.0, 1.0, 40), kMost, 1e-9);
  EXPECT_NEAR(MatchedAlone(-50.0, 1.0, 40), -kMost, 1e-9);
}

TEST(MatchSharedScale, IgnoresValuesThatAreNotPositive) {
  const ParametricMean mean = Mean(ParametricMean::Link::kInverse);
  const double alone = MatchSharedScale(
      mean, {{1},
             Eigen::VectorXd::Constant(1, 1.0 / AtScale(7.0, 2.0)),
             Eigen::VectorXd::Zero(1)});
  EXPECT_NE(alone, 0.0);
  EXPECT_EQ(MatchSharedScale(
                mean, {{0, 1, 2},
                       Eigen::Vector3d(0.0, 1.0 / AtScale(7.0, 2.0), -1.0),
                       Eigen::Vector3d::Zero()}),
            alone);
}

TEST(CentersAtScale, MoveTheRelativeCoefficientsOnly) {
  const Eigen::VectorXd centers =
      CentersAtScale(Mean(ParametricMean::Link::kInverse), std::log(3.0));
  EXPECT_DOUBLE_EQ(centers[0], std::log(6.0));
  EXPECT_DOUBLE_EQ(centers[1], std::log(0.1));
}

}  // namespace surrogates::shared_scale_test
