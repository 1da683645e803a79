#include "surrogates/gp/kernel.h"

#include <cmath>

#include <gtest/gtest.h>

namespace surrogates::kernel_test {

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

// Also beyond the pieces in which it is computed.
TEST(MaternCorrelation, OfALongArrayIsThatOfEachElement) {
  const Eigen::ArrayXd r2 = Eigen::ArrayXd::LinSpaced(3001, 0.0, 40.0);
  Eigen::ArrayXd k(r2.size());
  Eigen::ArrayXd slope;
  MaternCorrelation(r2, k, nullptr);
  Eigen::ArrayXd with_slope(r2.size());
  MaternCorrelation(r2, with_slope, &slope);
  ASSERT_EQ(slope.size(), r2.size());
  for (Eigen::Index i = 0; i < r2.size(); ++i) {
    const double a = std::sqrt(5.0 * r2[i]);
    EXPECT_NEAR(k[i], (1.0 + a + a * a / 3.0) * std::exp(-a), 1e-14) << i;
    EXPECT_EQ(with_slope[i], k[i]) << i;
    EXPECT_NEAR(slope[i], 5.0 / 3.0 * (1.0 + a) * std::exp(-a), 1e-13) << i;
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

}  // namespace surrogates::kernel_test
