#include "surrogates/gp/multistart.h"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/surrogates/gp/synthetic_problem.h"

namespace surrogates::multistart_test {

constexpr int kDimensions = 5;
constexpr int kTerms = 6;

class MaximiseOverStartsTest : public ::testing::Test {
 protected:
  tests::SyntheticProblem problem_ =
      tests::MakeSyntheticProblem(300, kDimensions, kTerms, 1);
  Observations observations_ = tests::Observe(problem_, 15, 2);
  KernelPriors priors_ = KernelPriors::DimensionScaled(
      kDimensions, TargetSpread(observations_.value));
  Likelihood likelihood_{
      problem_.space, problem_.mean, observations_, priors_, {}};
  std::vector<Hyperparameters> starts_ =
      StartingPoints(problem_.mean, priors_, observations_, kDimensions, 8, 3);
  HyperparameterBox box_{
      Eigen::VectorXd::Constant(likelihood_.parameter_count(), -6.0),
      Eigen::VectorXd::Constant(likelihood_.parameter_count(), 6.0)};
};

TEST_F(MaximiseOverStartsTest, EndsAtLeastAsHighAsEachStartAlone) {
  const HyperparameterFit fit =
      MaximiseOverStarts(likelihood_, starts_, box_, {.survivors = 8});
  for (const Hyperparameters& start : starts_) {
    EXPECT_GE(fit.log_posterior,
              MaximiseOverStarts(likelihood_, {start}, box_, {}).log_posterior);
  }
}

TEST_F(MaximiseOverStartsTest, ReportsTheObjectiveAtWhatItReturns) {
  const HyperparameterFit fit =
      MaximiseOverStarts(likelihood_, starts_, box_, {});
  EXPECT_DOUBLE_EQ(likelihood_.Evaluate(likelihood_.Pack(fit.best), nullptr),
                   fit.log_posterior);
  EXPECT_TRUE(fit.converged);
}

// One observation, far above every mean that the box allows: without priors,
// all starts end in the same corner of variance and coefficients, and length
// scales have no effect.
TEST_F(MaximiseOverStartsTest, KeepsTheFirstOfEqualStarts) {
  const Likelihood likelihood(problem_.space, problem_.mean,
                              {{3},
                               Eigen::VectorXd::Constant(1, 1e9),
                               Eigen::VectorXd::Constant(1, 1.0)},
                              priors_, {.with_priors = false});
  std::vector<Hyperparameters> starts = {starts_[0], starts_[0], starts_[0]};
  for (int i = 0; i < 3; ++i) {
    Hyperparameters& start = starts[i];
    start.log_length_scales.setConstant(0.1 * i);
    start.log_signal_variance = 3.0 - i;
  }
  const HyperparameterFit fit =
      MaximiseOverStarts(likelihood, starts, box_, {});
  EXPECT_EQ(fit.best.log_signal_variance, 6.0);
  EXPECT_EQ(fit.best.log_length_scales, starts[0].log_length_scales);
}

TEST_F(MaximiseOverStartsTest, NeedsAStart) {
  EXPECT_THROW((void)MaximiseOverStarts(likelihood_, {}, box_, {}),
               std::invalid_argument);
}

// Two coefficients, with deviations of 0.5 and 4.
ParametricMean TwoTerms(ParametricMean::Link link) {
  ParametricMean mean;
  mean.link = link;
  mean.features.resize(3, 2);
  mean.features << 1.0, 0.0, 1.0, 2.0, 0.5, 1.0;
  mean.coefficients = {{.name = "a", .log_center = 1.0, .log_stddev = 0.5},
                       {.name = "b", .log_center = -2.0, .log_stddev = 4.0}};
  return mean;
}
constexpr KernelPriors kPriors{
    .length_scale = {.log_center = 1.5, .log_stddev = 0.7},
    .signal_variance = {.log_center = -1.0,
                        .log_stddev = 0.4,
                        .density_in_x = false},
    .nugget_variance = {.log_center = -5.0,
                        .log_stddev = 0.3,
                        .density_in_x = false},
    .family_variance = {
        .log_center = -3.0, .log_stddev = 0.6, .density_in_x = false}};

// All but the first have the median of the data, which is 7 or a thousandth of
// that.
TEST(StartingPoints, OfTheMeanHaveTheMedianOfTheData) {
  for (const auto& [link, unit] :
       {std::pair(ParametricMean::Link::kLinear, 1.0),
        std::pair(ParametricMean::Link::kInverse, 1.0),
        std::pair(ParametricMean::Link::kLinear, 1e-3),
        std::pair(ParametricMean::Link::kInverse, 1e-3)}) {
    const ParametricMean mean = TwoTerms(link);
    const Observations observations{{0, 1, 2},
                                    unit * Eigen::Vector3d(9.0, 7.0, 0.1),
                                    Eigen::Vector3d::Zero()};
    const auto starts = StartingPoints(mean, kPriors, observations, 1, 6, 7);
    for (std::size_t i = 1; i < starts.size(); ++i) {
      Eigen::VectorXd values;
      mean.Evaluate({0, 1, 2}, starts[i].log_coefficients, values, nullptr);
      std::sort(values.begin(), values.end());
      EXPECT_NEAR(values[1] / unit, 7.0, 1e-9);
    }
    EXPECT_EQ(starts[0].log_coefficients, Eigen::Vector2d(1.0, -2.0));
  }
}

TEST(StartingPoints, IgnoreAMedianThatNoMeanCanHave) {
  const ParametricMean mean = TwoTerms(ParametricMean::Link::kLinear);
  for (const double median : {0.0, -2.0}) {
    const Observations observations{
        {0, 1, 2}, Eigen::Vector3d(median, 1.0, -3.0), Eigen::Vector3d::Zero()};
    for (const Hyperparameters& start :
         StartingPoints(mean, kPriors, observations, 1, 6, 7)) {
      EXPECT_TRUE(start.log_coefficients.allFinite());
      EXPECT_NEAR(start.log_coefficients[0], 1.0, 5.0 * 0.5);
    }
  }
}

TEST(TargetSpread, IsNotDecidedByOneWildValueNorByAMajorityOfEqualOnes) {
  Eigen::VectorXd values(9);
  values << 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0;
  EXPECT_NEAR(TargetSpread(values), 1.4826 * 2.0, 1e-12);
  values << 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 10.0;
  EXPECT_NEAR(TargetSpread(values), 1.5, 1e-12);  // half of a deviation of 3
}

// At 1e9, a spread of up to 1 is rounding.
TEST(TargetSpread, OfValuesThatDifferByRoundingIsTheirMagnitude) {
  const auto spread = [](double expected) {
    const double deviation = expected / 1.4826;
    return TargetSpread(Eigen::Vector2d(1e9 - deviation, 1e9 + deviation));
  };
  EXPECT_NEAR(spread(1.05), 1.05, 1e-6);
  EXPECT_NEAR(spread(0.95), 1e9, 1e-6);
}

TEST(TargetSpread, FallsBackOnTheMagnitude) {
  EXPECT_EQ(TargetSpread(Eigen::VectorXd()), 1.0);
  EXPECT_EQ(TargetSpread(Eigen::VectorXd::Constant(1, -3.0)), 3.0);
  EXPECT_EQ(TargetSpread(Eigen::VectorXd::Constant(5, 2e9)), 2e9);
  EXPECT_EQ(TargetSpread(Eigen::VectorXd::Zero(4)), 1.0);
}

}  // namespace surrogates::multistart_test
