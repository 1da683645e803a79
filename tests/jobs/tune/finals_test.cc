#include "jobs/tune/finals.h"

#include <cmath>

#include <gtest/gtest.h>

namespace jobs::finals_test {

TEST(Finals, RoundsThatDifferMakeTheMeanLessCertain) {
  const StepTime alike =
      *MeanStepTime({"a", {{1.0, 1.1, 0.9, 1.0}, {1.0, 1.1, 0.9, 1.0}}, {}});
  EXPECT_DOUBLE_EQ(alike.mean_s, 1.0);
  EXPECT_EQ(alike.steps, 8);
  // s^2 = 0.04 / 7 of 8 steps.
  EXPECT_NEAR(alike.standard_error_s, std::sqrt(0.04 / 7.0 / 8.0), 1e-12);
  const StepTime apart =
      *MeanStepTime({"b", {{0.5, 0.5, 0.5, 0.5}, {1.5, 1.5, 1.5, 1.5}}, {}});
  EXPECT_DOUBLE_EQ(apart.mean_s, 1.0);
  EXPECT_NEAR(apart.standard_error_s, std::sqrt(0.5 / 2.0), 1e-12);
}

TEST(Finals, AClearDifferenceIsSignificantAndNoiseIsNot) {
  const StepTime fast{1.0, 0.01, 20};
  const SpeedUp clear = Compare(fast, {1.2, 0.01, 20});
  EXPECT_NEAR(clear.factor.value, 1.2, 1e-12);
  EXPECT_LT(clear.factor.low, 1.2);
  EXPECT_GT(clear.factor.low, 1.16);
  EXPECT_TRUE(clear.Differs());
  const SpeedUp noise = Compare(fast, {1.02, 0.2, 20});
  EXPECT_FALSE(noise.Differs());
  EXPECT_LT(noise.factor.low, 1.0);
  EXPECT_EQ(ToString(Compare(fast, {1.5, 0.0, 3})), "1.50 times [1.47, 1.53]");
}

TEST(Finals, OnlyAClearlySlowerConfigurationIsNotMeasuredAgain) {
  const auto one_round = [](const char* config, double mean_s) {
    return Finalist{config, {{0.99 * mean_s, mean_s, 1.01 * mean_s}}, {}};
  };
  const std::vector<Finalist> all = {one_round("best", 1.0),
                                     one_round("close", 1.04),
                                     one_round("slow", 1.2),
                                     {"failed", {{}}, {}},
                                     one_round(kYours, 2.0)};
  for (const Finalist& finalist : all) {
    EXPECT_EQ(Contends(finalist, all, 1), finalist.config != "slow")
        << finalist.config;
    EXPECT_TRUE(Contends(finalist, all, 0)) << "nothing is measured yet";
  }
  // Later rounds do not change what the first one decided.
  std::vector<Finalist> later = all;
  later[2].rounds.push_back({0.5, 0.5});
  EXPECT_FALSE(Contends(later[2], later, 1));
}

TEST(Finals, ConfigurationsWithoutAStepHaveNoTime) {
  EXPECT_FALSE(MeanStepTime({"a", {{}, {}}, {}}).has_value());
}

}  // namespace jobs::finals_test
