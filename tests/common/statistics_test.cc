#include "common/statistics.h"

#include <cmath>
#include <stdexcept>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace common::statistics_test {

using testing::DoubleEq;
using testing::ElementsAre;

// Reference values are from SciPy 1.17.1, except Holm's, which are from
// statsmodels 0.15.0:
//   wilcoxon_p  wilcoxon(d, zero_method="pratt", method=PermutationMethod(
//               n_resamples=inf)); more than 50 pairs: method="approx",
//               correction=True
//   sign_p      binomtest(wins, wins + losses)
//   Bootstrap   bootstrap(method="percentile", n_resamples=200000), two strata
//               with numpy's choice and quantile
//   Holm        multipletests(method="holm")

// Hamilton depression scale factor, Hollander and Wolfe (1999), Table 3.1.
const std::vector<double> kDepression = {0.952, -0.147, 1.022, 0.43, 0.62,
                                         0.59,  0.49,   -0.08, 0.01};
const std::vector<double> kTiesAndZeros = {0.0,  0.0,  0.02,  -0.01, 0.02,
                                           0.05, 0.01, -0.02, 0.3,   0.1};
const std::vector<double> kShares = {0.71, 0.85, 0.92, 0.97, 1.0,
                                     0.88, 0.93, 0.79, 0.99, 0.96};

TEST(Variance, IsUnbiasedAndZeroOfOneValue) {
  EXPECT_DOUBLE_EQ(Variance({1, 2, 6}), 7.0);
  EXPECT_EQ(Variance({3}), 0.0);
  EXPECT_EQ(Variance({}), 0.0);
}

TEST(Mean, OfNothingIsUndefined) {
  EXPECT_DOUBLE_EQ(Mean({1, 2, 6}), 3.0);
  EXPECT_TRUE(std::isnan(Mean({})));
}

TEST(Ranks, EqualValuesShareTheMeanOfTheirRanks) {
  EXPECT_THAT(Ranks({5, 1, 5, -2, 5}), ElementsAre(4, 2, 4, 1, 4));
}

TEST(PairedTest, IsExactWithoutTies) {
  const PairedTest test = TestPairs(kDepression);
  EXPECT_DOUBLE_EQ(test.wilcoxon_p, 0.0390625);
  EXPECT_NEAR(test.sign_p, 0.1796875, 1e-12);
  EXPECT_DOUBLE_EQ(test.rank_biserial, 7.0 / 9.0);
  EXPECT_DOUBLE_EQ(test.superiority, 7.0 / 9.0);
}

TEST(PairedTest, IsExactGivenTiesAndZeros) {
  const PairedTest test = TestPairs(kTiesAndZeros);
  EXPECT_EQ(test.pairs, 10);
  EXPECT_EQ(test.wins, 6);
  EXPECT_EQ(test.losses, 2);
  EXPECT_EQ(test.ties, 2);
  EXPECT_DOUBLE_EQ(test.wilcoxon_p, 0.1171875);
  EXPECT_NEAR(test.sign_p, 0.2890625, 1e-12);
  EXPECT_NEAR(test.rank_biserial, 0.6346153846153846, 1e-12);
  EXPECT_DOUBLE_EQ(test.superiority, 0.7);
}

TEST(PairedTest, IsExactUpToFiftyPairs) {
  std::vector<double> differences;
  for (int i = 0; i < kExactPairs; ++i) {
    differences.push_back((1 + (i * 17) % 50) * ((i * 7) % 10 < 6 ? 1 : -1));
  }
  EXPECT_NEAR(TestPairs(differences).wilcoxon_p, 0.5210251168620434, 1e-12);
}

TEST(PairedTest, UsesTheNormalApproximationBeyond) {
  std::vector<double> differences;
  for (int i = 0; i < 60; ++i) {
    differences.push_back(((i * 37) % 61 - 25) / 10.0);
  }
  const PairedTest test = TestPairs(differences);
  EXPECT_NEAR(test.wilcoxon_p, 0.040686971249022326, 1e-12);
  EXPECT_NEAR(test.sign_p, 0.19252645776146274, 1e-12);
}

TEST(PairedTest, OfZerosShowsNoEffect) {
  const PairedTest test = TestPairs({0.0, 0.0, 0.0});
  EXPECT_EQ(test.wilcoxon_p, 1.0);
  EXPECT_EQ(test.sign_p, 1.0);
  EXPECT_EQ(test.rank_biserial, 0.0);
  EXPECT_EQ(test.superiority, 0.5);
}

TEST(PairedTest, OfNothingIsUnknown) {
  const PairedTest test = TestPairs({});
  EXPECT_EQ(test.pairs, 0);
  EXPECT_TRUE(std::isnan(test.wilcoxon_p));
  EXPECT_TRUE(std::isnan(test.superiority));
  EXPECT_THROW((void)TestPairs({std::nan("")}), std::invalid_argument);
}

TEST(PairedTest, CannotReachFivePercentWithFivePairs) {
  EXPECT_DOUBLE_EQ(SmallestP(5), 0.0625);
  EXPECT_DOUBLE_EQ(TestPairs({1, 2, 3, 4, 5}).wilcoxon_p, SmallestP(5));
  EXPECT_DOUBLE_EQ(TestPairs({1, 2, 3, 4, 5, 6}).wilcoxon_p, SmallestP(6));
  EXPECT_LT(SmallestP(6), 0.05);
  EXPECT_EQ(SmallestP(0), 1.0);
}

TEST(Holm, AdjustsInTheOrderGiven) {
  EXPECT_THAT(Holm({0.01, 0.04, 0.03, 0.005, 0.5}),
              ElementsAre(DoubleEq(0.04), DoubleEq(0.09), DoubleEq(0.09),
                          DoubleEq(0.025), 0.5));
}

TEST(Holm, DoesNotCountWhatIsUnknown) {
  const std::vector<double> p = Holm({0.02, std::nan(""), 0.03});
  EXPECT_DOUBLE_EQ(p[0], 0.04);
  EXPECT_TRUE(std::isnan(p[1]));
  EXPECT_DOUBLE_EQ(p[2], 0.04);
}

// As many resamples as the reference has, and the randomness that is left.
constexpr BootstrapOptions kMany = {.resamples = 200000};
constexpr double kResampling = 0.0015;

// Half of the values are m - 1, the others m + 1.
TEST(StudentP, IsFivePercentAtTheTabulatedQuantiles) {
  const std::pair<int, double> quantiles[] = {
      {2, 12.70620}, {4, 3.18245}, {6, 2.57058}, {30, 2.04523}};
  for (const auto& [n, t] : quantiles) {
    const double m = t / std::sqrt(n - 1);
    std::vector<double> values(n / 2, m - 1);
    values.resize(n, m + 1);
    EXPECT_NEAR(StudentP(values), 0.05, 1e-6) << n;
  }
  EXPECT_NEAR(StudentP({4.30265 / std::sqrt(3.0) - 1, 4.30265 / std::sqrt(3.0),
                        4.30265 / std::sqrt(3.0) + 1}),
              0.05, 1e-6);
  EXPECT_TRUE(std::isnan(StudentP({1.0, 1.0})));
}

TEST(Bootstrap, WeighsStrataEquallyAndResamplesWithinThem) {
  const std::vector<std::vector<double>> strata = {kShares,
                                                   {0.5, 0.6, 0.4, 0.55}};
  const Estimate mean = Bootstrap(strata, Statistic::kMean, kMany);
  EXPECT_DOUBLE_EQ(mean.value, 0.70625);
  EXPECT_NEAR(mean.low, 0.659, kResampling);
  EXPECT_NEAR(mean.high, 0.7495, kResampling);
  const Estimate median = Bootstrap(strata, Statistic::kMedian, kMany);
  EXPECT_DOUBLE_EQ(median.value, 0.725);
  EXPECT_NEAR(median.low, 0.6525, kResampling);
  EXPECT_NEAR(median.high, 0.77, kResampling);
  // The difference between strata is not part of the interval.
  const Estimate fixed = Bootstrap({{0.2, 0.2}, {0.8, 0.8}}, Statistic::kMean);
  EXPECT_EQ(fixed.low, 0.5);
  EXPECT_EQ(fixed.high, 0.5);
}

TEST(Bootstrap, DependsOnItsSeedOnly) {
  const Estimate a = Bootstrap({kShares}, Statistic::kMean);
  const Estimate b = Bootstrap({kShares}, Statistic::kMean);
  EXPECT_EQ(a.low, b.low);
  EXPECT_EQ(a.high, b.high);
  const Estimate c = Bootstrap({kShares}, Statistic::kMean, {.seed = 2});
  EXPECT_NE(a.low, c.low);
}

TEST(Bootstrap, KnowsNoIntervalOfOneValueAndNothingOfAnUnknownOne) {
  const Estimate one = Bootstrap({{0.5}, {0.7, 0.9}}, Statistic::kMean);
  EXPECT_DOUBLE_EQ(one.value, 0.65);
  EXPECT_TRUE(std::isnan(one.low));
  EXPECT_TRUE(
      std::isnan(Bootstrap({{0.5, std::nan("")}}, Statistic::kMean).value));
  EXPECT_TRUE(std::isnan(Bootstrap({{0.5}, {}}, Statistic::kMean).value));
  EXPECT_TRUE(std::isnan(Bootstrap({}, Statistic::kMean).value));
}

TEST(Bootstrap, DrawsTheNumbersOfARunTogetherWithinItsStratum) {
  const auto first_of_both = [](const Strata& drawn) {
    return drawn[0][0][0] + drawn[1][0][0];
  };
  // Problems differ, the runs of each are equal.
  const Estimate equal =
      Bootstrap(Strata{{{1.0}, {1.0}}, {{5.0}, {5.0}, {5.0}}}, first_of_both);
  EXPECT_EQ(equal.low, 6.0);
  EXPECT_EQ(equal.high, 6.0);
  const Estimate mixed =
      Bootstrap(Strata{{{0.0}, {1.0}}, {{5.0}}}, first_of_both);
  EXPECT_EQ(mixed.value, 5.0);
  EXPECT_EQ(mixed.low, 5.0);
  EXPECT_EQ(mixed.high, 6.0);
  const Estimate together = Bootstrap(
      Strata{{{0.0, 1.0}, {1.0, 2.0}}},
      [](const Strata& drawn) { return drawn[0][0][1] - drawn[0][0][0]; });
  EXPECT_EQ(together.low, 1.0);
  EXPECT_EQ(together.high, 1.0);
}

}  // namespace common::statistics_test
