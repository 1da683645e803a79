#include "common/quantiles.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace common::quantiles_test {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Values of R: quantile(x, c(.25, .5, .75), type = 7).
TEST(Quantiles, AgreeWithType7OfR) {
  const Quartiles even = ComputeQuartiles({4, 1, 3, 2});
  EXPECT_DOUBLE_EQ(even.q1, 1.75);
  EXPECT_DOUBLE_EQ(even.median, 2.5);
  EXPECT_DOUBLE_EQ(even.q3, 3.25);
  const Quartiles odd = ComputeQuartiles({50, 15, 40, 20, 35});
  EXPECT_DOUBLE_EQ(odd.q1, 20);
  EXPECT_DOUBLE_EQ(odd.median, 35);
  EXPECT_DOUBLE_EQ(odd.q3, 40);
  const Quartiles six = ComputeQuartiles({1, 2, 4, 8, 16, 32});
  EXPECT_DOUBLE_EQ(six.q1, 2.5);
  EXPECT_DOUBLE_EQ(six.median, 6);
  EXPECT_DOUBLE_EQ(six.q3, 14);
}

TEST(Quantiles, OfNothingAreUnknown) {
  EXPECT_TRUE(std::isnan(ComputeQuartiles({}).median));
  EXPECT_TRUE(std::isnan(Median({})));
}

TEST(Quantiles, AreInfiniteWhereARunNeverArrives) {
  EXPECT_EQ(Median({1, 2, kInfinity}), 2);
  EXPECT_EQ(Median({1, kInfinity}), kInfinity);
  EXPECT_EQ(Median({kInfinity, kInfinity}), kInfinity);
  EXPECT_EQ(ComputeQuartiles({1, 2, 3, kInfinity, kInfinity}).median, 3);
}

}  // namespace common::quantiles_test
