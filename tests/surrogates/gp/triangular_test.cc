#include "surrogates/gp/triangular.h"

#include <cstdint>
#include <random>

#include <Eigen/Cholesky>
#include <gtest/gtest.h>

namespace surrogates::triangular_test {

using Eigen::MatrixXd;

MatrixXd Random(Eigen::Index rows, Eigen::Index columns, int seed) {
  std::mt19937_64 engine(static_cast<std::uint64_t>(seed));
  std::normal_distribution<double> normal;
  return MatrixXd::NullaryExpr(rows, columns, [&] { return normal(engine); });
}

MatrixXd Covariance(int n) {
  const MatrixXd points = Random(6, n, n);
  MatrixXd a(n, n);
  for (int j = 0; j < n; ++j) {
    a.col(j) = (-(points.colwise() - points.col(j)).colwise().norm().array())
                   .exp()
                   .transpose();
  }
  a.diagonal().array() += 0.01;
  return a;
}

MatrixXd WithPadding(const MatrixXd& a) {
  MatrixXd padded = MatrixXd::Zero(Padded(a.rows()), a.cols());
  padded.topRows(a.rows()) = a;
  return padded;
}

// What is expected of the first n rows, in the lower triangle or everywhere:
// the same bytes where Eigen has the vectors and the order that the records
// were computed with, else the same numbers.
void ExpectSame(const MatrixXd& found, const MatrixXd& expected, bool lower) {
#if defined(EIGEN_VECTORIZE_SSE2) && !defined(EIGEN_VECTORIZE_AVX)
  const bool exact = expected.rows() <= 120;
#else
  const bool exact = false;
#endif
  const double tolerance = exact ? 0.0 : 1e-12 * expected.norm();
  for (Eigen::Index j = 0; j < expected.cols(); ++j) {
    for (Eigen::Index i = lower ? j : 0; i < expected.rows(); ++i) {
      ASSERT_NEAR(found(i, j), expected(i, j), tolerance) << i << " " << j;
    }
  }
}

class Triangular : public testing::TestWithParam<int> {};

// Sizes with every remainder by 8 and on both sides of every change of the
// blocks of Eigen below 120, where its cache blocks begin.
INSTANTIATE_TEST_SUITE_P(Sizes, Triangular, testing::Range(1, 121));
INSTANTIATE_TEST_SUITE_P(LargeSizes, Triangular, testing::Values(200, 403));

TEST_P(Triangular, AddsUpInTheOrderOfTheRecords) {
  const int n = GetParam();
  const int m = 2 + n % 30;
  const MatrixXd a = Covariance(n);
  const MatrixXd b = Random(n, m, n + 1);

  MatrixXd l = a;
  const Eigen::LLT<Eigen::Ref<MatrixXd>> factorization(l);
  MatrixXd inverse = MatrixXd::Identity(n, n);
  l.triangularView<Eigen::Lower>().solveInPlace(inverse);
  MatrixXd squares = MatrixXd::Zero(n, n);
  squares.selfadjointView<Eigen::Lower>().rankUpdate(inverse.transpose());
  MatrixXd rest = squares;
  rest.selfadjointView<Eigen::Lower>().rankUpdate(b, -1.0);
  MatrixXd solution = b;
  l.triangularView<Eigen::Lower>().solveInPlace(solution);
  l.triangularView<Eigen::Lower>().transpose().solveInPlace(solution);

  MatrixXd factor = WithPadding(a);
  ASSERT_TRUE(Cholesky(factor.data(), n));
  ExpectSame(factor, l, true);
  MatrixXd by_rows(Padded(n), n);
  InvertTriangle(factor.data(), n, by_rows.data());
  ExpectSame(by_rows.topRows(n).transpose(), inverse, false);
  MatrixXd product(Padded(n), n);
  TriangularSquares(by_rows.data(), n, product.data());
  ExpectSame(product, squares, true);
  SubtractSquares(WithPadding(b).data(), n, m, product.data());
  ExpectSame(product, rest, true);
  MatrixXd right = WithPadding(b.transpose());
  CholeskySolve(factor.data(), n, right.data(), m);
  ExpectSame(right.topRows(m).transpose(), solution, false);
}

TEST(TriangularError, RefusesWhatIsNotPositiveDefinite) {
  for (const int n : {2, 40}) {
    MatrixXd a = WithPadding(MatrixXd::Identity(n, n));
    a(n - 1, n - 1) = -1.0;
    EXPECT_FALSE(Cholesky(a.data(), n));
  }
}

}  // namespace surrogates::triangular_test
