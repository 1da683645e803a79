#include "surrogates/gp/minimize.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace surrogates::minimize_test {

Eigen::VectorXd Constant(int size, double value) {
  return Eigen::VectorXd::Constant(size, value);
}

class MinimizeTest : public testing::TestWithParam<Minimizer> {};
INSTANTIATE_TEST_SUITE_P(Both, MinimizeTest,
                         testing::Values(Minimizer::kLbfgs, Minimizer::kSlsqp));

double Rosenbrock(const Eigen::VectorXd& x, Eigen::VectorXd* gradient) {
  const double a = 1.0 - x[0];
  const double b = x[1] - x[0] * x[0];
  gradient->resize(2);
  *gradient << -2.0 * a - 400.0 * x[0] * b, 200.0 * b;
  return a * a + 100.0 * b * b;
}

TEST_P(MinimizeTest, FindsTheMinimumOfRosenbrocksFunction) {
  const Minimum found =
      Minimize(Rosenbrock, Eigen::Vector2d(-1.2, 1.0), Constant(2, -5.0),
               Constant(2, 5.0), 500, GetParam());
  EXPECT_TRUE(found.converged);
  EXPECT_NEAR(found.x[0], 1.0, 1e-3);
  EXPECT_NEAR(found.x[1], 1.0, 1e-3);
  EXPECT_LT(found.value, 1e-6);
}

// min |x - c|^2 in a box is the projection of c.
TEST_P(MinimizeTest, ProjectsIntoTheBox) {
  const Eigen::Vector3d center(2.0, -3.0, 0.25);
  const Minimum found = Minimize(
      [&](const Eigen::VectorXd& x, Eigen::VectorXd* gradient) {
        *gradient = 2.0 * (x - center);
        return (x - center).squaredNorm();
      },
      Constant(3, 9.0), Constant(3, -1.0), Constant(3, 1.0), 100, GetParam());
  EXPECT_TRUE(found.x.isApprox(Eigen::Vector3d(1.0, -1.0, 0.25), 1e-6))
      << found.x.transpose();
}

TEST_P(MinimizeTest, StepsBackFromWhereTheFunctionIsUndefined) {
  const Minimum found = Minimize(
      [](const Eigen::VectorXd& x, Eigen::VectorXd* gradient) {
        *gradient = Constant(1, 1.0 - 1.0 / x[0]);  // x - log(x)
        return x[0] > 0.0 ? x[0] - std::log(x[0])
                          : std::numeric_limits<double>::infinity();
      },
      Constant(1, 20.0), Constant(1, -100.0), Constant(1, 100.0), 200,
      GetParam());
  EXPECT_NEAR(found.x[0], 1.0, 1e-3);
}

TEST_P(MinimizeTest, UndefinedEverywhereIsNotConverged) {
  const Minimum found = Minimize(
      [](const Eigen::VectorXd& x, Eigen::VectorXd* gradient) {
        *gradient = x;
        return std::nan("");
      },
      Constant(2, 0.5), Constant(2, 0.0), Constant(2, 1.0), 50, GetParam());
  EXPECT_FALSE(found.converged);
  EXPECT_EQ(found.x, Constant(2, 0.5));
}

}  // namespace surrogates::minimize_test
