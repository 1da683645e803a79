#include "trials/predictions.h"

#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trials::predictions_test {

TEST(Order, WithoutSpreadIsByTimeOfWhatFitsThenByMemoryOfTheRest) {
  const Predictions predictions{
      .step_time_s = {1.0, 4.0, 2.0, 0.5, 2.0},
      .peak_memory_bytes = {12.0, 5.0, 8.0, 11.0, 10.0},
      .memory_log_stddev = 0.0};
  EXPECT_THAT(Order(predictions, 10.0), testing::ElementsAre(2, 4, 1, 3, 0));
}

TEST(Order, TriesAFastCandidateThatMightFitBeforeASlowSafeOne) {
  Predictions predictions{.step_time_s = {2.0, 1.0, 0.5},
                          .peak_memory_bytes = {5.0, 10.4, 40.0},
                          .memory_log_stddev = 0.08};
  EXPECT_THAT(Order(predictions, 10.0), testing::ElementsAre(1, 0, 2));
  predictions.step_time_s[1] = 2.1;  // nothing to gain
  EXPECT_THAT(Order(predictions, 10.0), testing::ElementsAre(0, 1, 2));
}

TEST(TryOrder, NoOtherFirstOneHasABetterExpectation) {
  std::mt19937 engine(1);
  std::uniform_real_distribution<double> unit(0.0, 1.0);
  for (int repeat = 0; repeat < 50; ++repeat) {
    std::vector<double> time(8), probability(8);
    for (std::size_t i = 0; i < time.size(); ++i) {
      time[i] = 1.0 + unit(engine);
      probability[i] = unit(engine);
    }
    double safe = 0.0, safe_speed = 0.0;
    for (std::size_t i = 0; i < time.size(); ++i) {
      if (probability[i] / time[i] > safe) {
        safe = probability[i] / time[i];
        safe_speed = 1.0 / time[i];
      }
    }
    const auto expectation = [&](std::size_t i) {
      return probability[i] / time[i] +
             (1.0 - probability[i]) * 0.95 * safe_speed;
    };
    const int first = FirstToTry(time, probability);
    EXPECT_EQ(TryOrder(time, probability).front(), first);
    for (std::size_t i = 0; i < time.size(); ++i) {
      EXPECT_LE(expectation(i), expectation(static_cast<std::size_t>(first)));
    }
  }
  EXPECT_EQ(FirstToTry({}, {}), -1);
}

TEST(FitProbability, IsHalfAtTheCapacityAndFallsWithThePeak) {
  EXPECT_DOUBLE_EQ(FitProbability(10.0, 10.0, 0.1), 0.5);
  double before = 1.0;
  for (double peak = 5.0; peak < 20.0; peak += 0.5) {
    const double now = FitProbability(peak, 10.0, 0.1);
    EXPECT_LT(now, before);
    before = now;
  }
  EXPECT_EQ(FitProbability(10.0, 10.0, 0.0), 1.0);
  EXPECT_EQ(FitProbability(10.1, 10.0, 0.0), 0.0);
}

}  // namespace trials::predictions_test
