#include "surrogates/gp/kernel.h"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace surrogates {
namespace {

// The kernel as its definition has it, one pair at a time.
double Matern(const Eigen::VectorXd& x,
              const Eigen::VectorXd& y,
              const Eigen::VectorXd& l) {
  const double a = std::sqrt(5.0) * (x - y).cwiseQuotient(l).norm();
  return (1.0 + a + a * a / 3.0) * std::exp(-a);
}

Eigen::MatrixXd RandomPoints(int d, int n, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<double> uniform;
  return Eigen::MatrixXd::NullaryExpr(d, n, [&] { return uniform(engine); });
}

TEST(MaternCorrelation, IsOneAtZeroDistanceAndFallsFromThere) {
  Eigen::ArrayXd r2(4);
  r2 << 0.0, 0.1, 1.0, 100.0;
  Eigen::ArrayXd k(4);
  MaternCorrelation(r2, k, nullptr);
  EXPECT_EQ(k[0], 1.0);
  EXPECT_NEAR(k[2],
              (1.0 + std::sqrt(5.0) + 5.0 / 3.0) * std::exp(-std::sqrt(5.0)),
              1e-15);
  EXPECT_GT(k[1], k[2]);
  EXPECT_LT(k[3], 1e-6);
}

TEST(MaternCorrelation, SlopeIsTheDerivativeByLogLengthScales) {
  // r^2 = difference^2 / l^2, so d / d log l = -2 r^2 d / d r^2.
  for (const double r2 : {0.0, 1e-4, 0.3, 2.0, 900.0}) {
    const double step = 1e-5;
    Eigen::ArrayXd moved(2);
    moved << r2 * std::exp(-2.0 * step), r2 * std::exp(2.0 * step);
    Eigen::ArrayXd k(2);
    Eigen::ArrayXd slope;
    MaternCorrelation(moved, k, nullptr);
    const double difference = (k[0] - k[1]) / (2.0 * step);
    MaternCorrelation(Eigen::ArrayXd::Constant(2, r2), k, &slope);
    EXPECT_NEAR(slope[0] * r2, difference, 1e-9);
  }
}

TEST(PairwiseSquaredDifferences, PacksTheLowerTriangleByColumns) {
  Eigen::MatrixXd points(2, 3);
  points << 0.0, 1.0, 3.0, 0.0, 0.5, 0.5;
  Eigen::MatrixXd expected(3, 2);
  expected << 1.0, 0.25, 9.0, 0.25, 4.0, 0.0;
  EXPECT_EQ(PairwiseSquaredDifferences(points), expected);
  EXPECT_EQ(PairwiseSquaredDifferences(points.leftCols(1)).rows(), 0);
}

TEST(CrossCorrelation, AgreesWithTheDefinition) {
  const Eigen::MatrixXd points = RandomPoints(12, 30, 1);
  Eigen::MatrixXd others = RandomPoints(12, 300, 2);
  others.col(7) = points.col(3);
  const Eigen::VectorXd l = 0.05 + 2.0 * RandomPoints(12, 1, 3).array();
  const CrossCorrelation cross(points, l);
  CrossCorrelation::Buffers buffers;
  Eigen::MatrixXd k(30, 300);
  cross.Evaluate(others, buffers, k);
  for (int i = 0; i < 30; ++i) {
    for (int j = 0; j < 300; ++j) {
      ASSERT_NEAR(k(i, j), Matern(points.col(i), others.col(j), l), 1e-12);
    }
  }
}

TEST(CrossCorrelation, IsNearlyOneAtEqualPointsEvenForShortLengthScales) {
  const Eigen::MatrixXd points = RandomPoints(12, 20, 4);
  const CrossCorrelation cross(points, Eigen::VectorXd::Constant(12, 0.025));
  CrossCorrelation::Buffers buffers;
  Eigen::MatrixXd k(20, 20);
  cross.Evaluate(points, buffers, k);
  EXPECT_LT((k.diagonal().array() - 1.0).abs().maxCoeff(), 1e-10);
}

}  // namespace
}  // namespace surrogates
