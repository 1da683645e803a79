#include "surrogates/parametric_mean.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace surrogates::parametric_mean_test {

ParametricMean Make(ParametricMean::Link link) {
  ParametricMean mean;
  mean.link = link;
  mean.features.resize(4, 2);
  mean.features << 1.0, 2.0, 3.0, 0.5, 0.0, 4.0, 1.5, 1.5;
  mean.coefficients = {{.name = "a"}, {.name = "b"}};
  return mean;
}

const Eigen::Vector2d kLogC(std::log(0.5), std::log(2.0));

void ExpectJacobianMatchesDifferences(const ParametricMean& mean,
                                      const std::vector<int>& rows) {
  const Eigen::VectorXd log_c = kLogC.head(mean.size());
  Eigen::VectorXd values;
  Eigen::MatrixXd jacobian;
  mean.Evaluate(rows, log_c, values, &jacobian);
  constexpr double kStep = 1e-6;
  for (int j = 0; j < mean.size(); ++j) {
    Eigen::VectorXd high;
    Eigen::VectorXd low;
    const Eigen::VectorXd move = kStep * Eigen::VectorXd::Unit(mean.size(), j);
    mean.Evaluate(rows, log_c + move, high, nullptr);
    mean.Evaluate(rows, log_c - move, low, nullptr);
    EXPECT_LT(((high - low) / (2.0 * kStep) - jacobian.col(j)).norm(), 1e-8);
  }
}

TEST(ParametricMean, LinearIsTheWeightedSum) {
  Eigen::VectorXd values;
  Make(ParametricMean::Link::kLinear).Evaluate({2, 0}, kLogC, values, nullptr);
  EXPECT_NEAR(values[0], 8.0, 1e-14);
  EXPECT_NEAR(values[1], 4.5, 1e-14);
}

TEST(ParametricMean, InverseIsOneOverTheWeightedSum) {
  Eigen::VectorXd values;
  Make(ParametricMean::Link::kInverse).Evaluate({1}, kLogC, values, nullptr);
  EXPECT_NEAR(values[0], 1.0 / 2.5, 1e-15);
}

TEST(ParametricMean, JacobianMatchesDifferences) {
  ExpectJacobianMatchesDifferences(Make(ParametricMean::Link::kLinear),
                                   {0, 1, 2, 3, 1});
  ExpectJacobianMatchesDifferences(Make(ParametricMean::Link::kInverse),
                                   {3, 2, 1, 0});
  ExpectJacobianMatchesDifferences(ConstantMean(3, 0.7, 1.0), {2, 0});
}

TEST(ParametricMean, AllCandidatesAgreeWithSingleOnes) {
  for (const auto link :
       {ParametricMean::Link::kLinear, ParametricMean::Link::kInverse}) {
    ParametricMean mean = Make(link);
    mean.clip = 6.0;
    Eigen::VectorXd values;
    mean.Evaluate({0, 1, 2, 3}, kLogC, values, nullptr);
    EXPECT_TRUE(mean.EvaluateAll(kLogC).isApprox(values, 1e-15));
  }
}

TEST(ConstantMean, IsItsCoefficientEverywhere) {
  const ParametricMean mean = ConstantMean(3, 0.7, 1.0);
  EXPECT_EQ(mean.coefficients[0].log_center, 0.7);
  EXPECT_TRUE(mean.EvaluateAll(Eigen::VectorXd::Constant(1, std::log(2.5)))
                  .isApprox(Eigen::VectorXd::Constant(3, 2.5)));
}

// The clip itself is not clipped.
TEST(ParametricMean, ItsClipIsTheLastValueWithItsOwnGradient) {
  ParametricMean mean;
  mean.link = ParametricMean::Link::kLinear;
  mean.features.resize(3, 1);
  mean.features << 4.0, 5.0, 6.0;
  mean.coefficients = {{.name = "a"}};
  mean.clip = 5.0;
  mean.clip_gradient = 0.25;
  Eigen::VectorXd values;
  Eigen::MatrixXd jacobian;
  mean.Evaluate({0, 1, 2}, Eigen::VectorXd::Zero(1), values, &jacobian);
  EXPECT_EQ(values, Eigen::Vector3d(4.0, 5.0, 5.0));
  EXPECT_EQ(jacobian.col(0), Eigen::Vector3d(4.0, 5.0, 0.25 * 6.0));
}

}  // namespace surrogates::parametric_mean_test
