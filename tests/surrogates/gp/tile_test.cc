#include "surrogates/gp/tile.h"

#include <cstdint>
#include <random>

#include <Eigen/Core>
#include <gtest/gtest.h>

#include "surrogates/gp/kernel.h"

namespace surrogates::tile_test {

using RowMatrix =
    Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

RowMatrix Random(int rows, int columns, int seed) {
  std::mt19937_64 engine(static_cast<std::uint64_t>(seed));
  std::normal_distribution<double> normal;
  return RowMatrix::NullaryExpr(rows, columns, [&] { return normal(engine); });
}

TEST(Tile, CorrelationsAreThoseOfTheKernel) {
  const RowMatrix points = Random(30, 12, 2);
  RowMatrix tile = Random(12, kTile, 3);
  tile.col(7) = points.row(3).transpose();
  tile.col(8).setConstant(1e4);  // nothing is left of the correlation there
  RowMatrix k(30, kTile);
  MaternTile(points.data(), 30, 12, tile.data(), k.data());
  for (int i = 0; i < 30; ++i) {
    Eigen::ArrayXd expected =
        (tile.colwise() - points.row(i).transpose()).colwise().squaredNorm();
    MaternCorrelation(expected, expected, nullptr);
    for (int t = 0; t < kTile; ++t) {
      ASSERT_NEAR(k(i, t), expected[t], 1e-14);
    }
  }
  EXPECT_EQ(k(3, 7), 1.0);
}

TEST(Tile, ProductsAreThoseOfMatrices) {
  const RowMatrix k = Random(50, kTile, 4);
  RowMatrix lower = Random(50, 50, 5);
  const RowMatrix v = lower.triangularView<Eigen::Lower>() * k;
  Eigen::RowVectorXd sum(kTile);
  TriangularSquaresTile(lower.data(), 50, k.data(), sum.data());
  EXPECT_LT((sum - v.colwise().squaredNorm()).lpNorm<Eigen::Infinity>(), 1e-10);
  const RowMatrix weights = Random(7, 50, 6);
  RowMatrix out(7, kTile);
  ProductTile(weights.data(), 7, 50, k.data(), out.data());
  EXPECT_LT((out - weights * k).lpNorm<Eigen::Infinity>(), 1e-12);
}

// One more row than is written, of sevens.
TEST(Tile, WritesNothingBehindItsLastRow) {
  const auto expect_sevens = [](const Eigen::VectorXd& out) {
    EXPECT_TRUE((out.tail(kTile).array() == 7.0).all());
  };
  const RowMatrix input = Random(40, kTile, 9);
  Eigen::VectorXd one = Eigen::VectorXd::Constant(2 * kTile, 7.0);
  TriangularSquaresTile(input.data(), 5, input.data(), one.data());
  expect_sevens(one);
  Eigen::VectorXd three = Eigen::VectorXd::Constant(4 * kTile, 7.0);
  MaternTile(input.data(), 3, 2, input.data(), three.data());
  expect_sevens(three);
  ProductTile(input.data(), 3, 5, input.data(), three.data());
  expect_sevens(three);
}

// The reason why an argmax is the same on every machine: the compiler's vectors
// may differ, the order of every sum may not.
TEST(Tile, SumsInOrderWithoutFusing) {
  const RowMatrix k = Random(40, kTile, 7);
  const RowMatrix weights = Random(3, 40, 8);
  RowMatrix out(3, kTile);
  ProductTile(weights.data(), 3, 40, k.data(), out.data());
  for (int j = 0; j < 3; ++j) {
    for (int t = 0; t < kTile; ++t) {
      double sum = 0.0;
      for (int i = 0; i < 40; ++i) {
        const volatile double product = weights(j, i) * k(i, t);
        sum += product;
      }
      ASSERT_EQ(out(j, t), sum);
    }
  }
}

}  // namespace surrogates::tile_test
