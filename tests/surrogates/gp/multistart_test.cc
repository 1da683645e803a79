#include "surrogates/gp/multistart.h"

#include <stdexcept>
#include <vector>

#include <gtest/gtest.h>

#include "tests/surrogates/gp/synthetic_problem.h"

namespace surrogates {
namespace {

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

TEST_F(MaximiseOverStartsTest, HalvingSavesEvaluations) {
  const auto evaluations = [&](int survivors) {
    return MaximiseOverStarts(
               likelihood_, starts_, box_, {.survivors = survivors})
        .evaluations;
  };
  EXPECT_LT(evaluations(2), evaluations(8));
}

TEST_F(MaximiseOverStartsTest, NeedsAStart) {
  EXPECT_THROW((void)MaximiseOverStarts(likelihood_, {}, box_, {}),
               std::invalid_argument);
}

TEST_F(MaximiseOverStartsTest, StartsFollowFromTheSeed) {
  const auto starts = [&](std::uint64_t seed) {
    return StartingPoints(
        problem_.mean, priors_, observations_, kDimensions, 3, seed);
  };
  EXPECT_EQ(starts(3)[2].log_length_scales, starts(3)[2].log_length_scales);
  EXPECT_NE(starts(3)[2].log_length_scales, starts(4)[2].log_length_scales);
}

TEST(TargetSpread, IsNotDecidedByOneWildValueNorByAMajorityOfEqualOnes) {
  Eigen::VectorXd values(9);
  values << 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0;
  EXPECT_NEAR(TargetSpread(values), 1.4826 * 2.0, 1e-12);
  values << 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 10.0;
  EXPECT_NEAR(TargetSpread(values), 1.5, 1e-12);  // half of a deviation of 3
}

TEST(TargetSpread, FallsBackOnTheMagnitude) {
  EXPECT_EQ(TargetSpread(Eigen::VectorXd()), 1.0);
  EXPECT_EQ(TargetSpread(Eigen::VectorXd::Constant(1, -3.0)), 3.0);
  EXPECT_EQ(TargetSpread(Eigen::VectorXd::Constant(5, 2e9)), 2e9);
  EXPECT_EQ(TargetSpread(Eigen::VectorXd::Zero(4)), 1.0);
}

}  // namespace
}  // namespace surrogates
