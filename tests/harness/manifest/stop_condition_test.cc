#include "harness/manifest/stop_condition.h"

#include <gtest/gtest.h>

#include "methods/remaining.h"
#include "tests/harness/manifest_checks.h"

namespace harness::stop_condition_test {

std::string ErrorOf(const std::string& text) {
  return harness::ErrorOf([&] { return StopCondition(text); });
}

TEST(StopCondition, ComparesTheQuantityThatItNames) {
  EXPECT_TRUE(StopCondition("gain < 1%").IsMet({.expected_gain = 0.009}));
  EXPECT_FALSE(StopCondition("gain < 1%").IsMet({.expected_gain = 0.01}));
  EXPECT_TRUE(StopCondition("p_within_1 > 90%").IsMet({.p_within_1 = 0.91}));
  EXPECT_FALSE(StopCondition("p_within_1 > 90%").IsMet({.p_within_5 = 0.91}));
  EXPECT_TRUE(StopCondition("p_within_3 > 90%").IsMet({.p_within_3 = 0.91}));
  EXPECT_TRUE(StopCondition("p_within_5 > 95%").IsMet({.p_within_5 = 0.951}));
  EXPECT_TRUE(StopCondition("p_found_5 > 75%").IsMet({.p_found_5 = 0.751}));
  EXPECT_FALSE(StopCondition("p_within_5 > 95%").IsMet({.p_within_5 = 0.95}));
}

TEST(StopCondition, IsMetWhereAllOfItsBoundsHold) {
  const StopCondition both("gain < 1% and p_within_5>75.0%");
  EXPECT_TRUE(both.IsMet({.expected_gain = 0.009, .p_within_5 = 0.76}));
  EXPECT_FALSE(both.IsMet({.expected_gain = 0.009, .p_within_5 = 0.74}));
  EXPECT_FALSE(both.IsMet({.expected_gain = 0.011, .p_within_5 = 0.76}));
  EXPECT_EQ(
      both.FirstUnmet({.expected_gain = 0.009, .p_within_5 = 0.5})->quantity,
      "p_within_5");
  EXPECT_EQ(both.ToString(), "gain < 1% and p_within_5 > 75%");
}

TEST(StopCondition, IgnoresSpacesAndTheFormOfTheNumber) {
  EXPECT_EQ(StopCondition("gain<1%").ToString(), "gain < 1%");
  EXPECT_EQ(StopCondition("  gain  <  0.50 % ").ToString(), "gain < 0.5%");
}

// The highest estimate is 97.84%.
TEST(StopCondition, RefusesAThresholdThatNoEstimateExceeds) {
  for (const char* text :
       {"p_within_5 > 99%", "p_within_3 > 97.84%", "p_within_1 > 98%"}) {
    EXPECT_NE(ErrorOf(text).find("must be at most 97.8%"), std::string::npos)
        << ErrorOf(text);
  }
  const double highest = methods::HighestProbability();
  EXPECT_TRUE(
      StopCondition("p_within_5 > 97.8%").IsMet({.p_within_5 = highest}));
}

TEST(StopCondition, NamesTheErrorAndTheRemedy) {
  const auto expect = [](const std::string& text, const std::string& part) {
    EXPECT_NE(ErrorOf(text).find(part), std::string::npos) << ErrorOf(text);
    EXPECT_NE(ErrorOf(text).find("write for example \"gain < 1%\""),
              std::string::npos);
  };
  expect("", "a comparison (< or >) is missing");
  expect("gain = 1%", "a comparison (< or >) is missing");
  expect("gian < 1%", "unknown quantity 'gian'");
  expect("p_within_2 > 90%", "unknown quantity 'p_within_2'");
  expect("gain > 1%", "gain must be compared with <");
  expect("p_within_5 < 90%", "p_within_5 must be compared with >");
  expect("gain <= 1%", "'= 1' must be a number above 0 and below 100");
  expect("gain < 0.01", "a percentage must end in %");
  expect("gain < 0%", "'0' must be a number above 0 and below 100");
  expect("gain < 100%", "'100' must be");
  expect("gain < nan%", "'nan' must be");
  expect("gain < 1% and", "a percentage must end in %");
  expect("gain < 1% and ", "a comparison (< or >) is missing");
  expect("gain < 1% or p_within_5 > 90%", "must be a number");
}

}  // namespace harness::stop_condition_test
