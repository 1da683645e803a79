#include "studies/validation/statistics.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace studies::statistics_test {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

TEST(ValidateStatistics, ErrorsAreRelativeToTheMeasurementAndLeaveOutUnknowns) {
  // Errors 0.1, 0.2, 0.5 and one pair that says nothing.
  const ErrorSummary summary =
      SummariseErrors({1.1, 1.6, kUndefined, 3.0}, {1.0, 2.0, 5.0, 2.0});
  EXPECT_EQ(summary.rows, 3);
  EXPECT_NEAR(summary.mean, 0.8 / 3, 1e-12);
  EXPECT_NEAR(summary.median, 0.2, 1e-12);
  EXPECT_NEAR(summary.p90, 0.2 + 0.8 * 0.3, 1e-12);  // type 7
  EXPECT_NEAR(summary.bias, (0.1 - 0.2 + 0.5) / 3, 1e-12);
}

TEST(ValidateStatistics, SpearmanSeesOnlyOrder) {
  EXPECT_DOUBLE_EQ(Spearman({1, 2, 3, 4}, {10, 100, 1000, 1e9}), 1.0);
  EXPECT_DOUBLE_EQ(Spearman({1, 2, 3, 4}, {4, 3, 2, 1}), -1.0);
  // d = (0, 1, -1, 0): 1 - 6 * 2 / (4 * 15).
  EXPECT_DOUBLE_EQ(Spearman({1, 2, 3, 4}, {1, 3, 2, 4}), 0.8);
}

// Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4.
TEST(ValidateStatistics, EqualValuesShareTheirRank) {
  EXPECT_NEAR(Spearman({1, 2, 2, 3}, {1, 2, 3, 4}), 4.5 / std::sqrt(22.5),
              1e-12);
}

TEST(ValidateStatistics, ARankCorrelationNeedsTwoDifferentValues) {
  EXPECT_TRUE(std::isnan(Spearman({1}, {2})));
  EXPECT_TRUE(std::isnan(Spearman({1, 1, 1}, {1, 2, 3})));
}

TEST(ValidateStatistics, ThePickIsTheFastestThatIsLikelyToFit) {
  const auto pick = PickOf({{.measured_s = 1.0, .predicted_s = 3.0},
                            {.measured_s = 1.2, .predicted_s = 2.0},
                            {.measured_s = std::nullopt,
                             .predicted_s = 1.0,
                             .fit_probability = 0.0}});
  ASSERT_TRUE(pick.has_value());
  EXPECT_TRUE(pick->runs);
  EXPECT_NEAR(pick->slowdown, 0.2, 1e-12);
}

TEST(ValidateStatistics, AFastConfigurationThatMightNotFitIsTriedFirst) {
  const auto pick =
      PickOf({{.measured_s = 1.0, .predicted_s = 1.0, .fit_probability = 0.3},
              {.measured_s = 2.0, .predicted_s = 2.0}});
  ASSERT_TRUE(pick.has_value());
  EXPECT_TRUE(pick->runs);
  EXPECT_EQ(pick->slowdown, 0.0);
}

TEST(ValidateStatistics, APickThatRanOutOfMemoryIsReplacedByTheNextOne) {
  const auto pick = PickOf({{.measured_s = 1.0, .predicted_s = 4.0},
                            {.measured_s = 1.1, .predicted_s = 3.0},
                            {.measured_s = std::nullopt, .predicted_s = 2.0}});
  ASSERT_TRUE(pick.has_value());
  EXPECT_FALSE(pick->runs);
  EXPECT_NEAR(pick->slowdown, 0.1, 1e-12);
}

TEST(ValidateStatistics, AScenarioInWhichNothingRanHasNoPick) {
  EXPECT_FALSE(
      PickOf({{.measured_s = std::nullopt, .predicted_s = 1.0}}).has_value());
}

// Measured 10, 10.4, 12, 20 s are predicted as 2, 1, 4, 3 s: ranks 1, 2, 3, 4
// against 2, 1, 4, 3, so 1 - 6 * 4 / (4 * 15).
TEST(ValidateStatistics, AnOrderingIsOfWhatRanWhateverItsMemory) {
  const Ordering ordering = OrderingOf(
      {{.measured_s = 10.0, .predicted_s = 2.0, .fit_probability = 0.0},
       {.measured_s = 10.4, .predicted_s = 1.0, .fit_probability = 0.0},
       {.measured_s = std::nullopt, .predicted_s = 0.5},
       {.measured_s = 12.0, .predicted_s = 4.0},
       {.measured_s = 20.0, .predicted_s = 3.0},
       {.measured_s = 1.0, .predicted_s = kUnlimited}});
  EXPECT_NEAR(ordering.spearman, 0.6, 1e-12);
  EXPECT_NEAR(ordering.fastest_slowdown, 0.04, 1e-12);
  // 10 and 10.4 differ by less than 5%; of the other five, 12 and 20 are wrong.
  EXPECT_EQ(ordering.pairs.of, 5);
  EXPECT_EQ(ordering.pairs.rows, 4);
}

TEST(ValidateStatistics, EqualPredictionsDoNotOrderAPair) {
  const Ordering ordering =
      OrderingOf({{.measured_s = 1.0, .predicted_s = 1.0},
                  {.measured_s = 1.051, .predicted_s = 1.0},
                  {.measured_s = 1.1, .predicted_s = 2.0}});
  EXPECT_EQ(ordering.pairs.of, 2);  // 1.1 / 1.051 is less than 1.05
  EXPECT_EQ(ordering.pairs.rows, 1);
}

TEST(ValidateStatistics, AScenarioInWhichNothingRanHasNoOrdering) {
  const Ordering ordering =
      OrderingOf({{.measured_s = std::nullopt, .predicted_s = 1.0}});
  EXPECT_TRUE(std::isnan(ordering.spearman));
  EXPECT_TRUE(std::isnan(ordering.fastest_slowdown));
  EXPECT_TRUE(std::isnan(ordering.pairs.Value()));
}

}  // namespace studies::statistics_test
