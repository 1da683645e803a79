#include "methods/history.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

namespace methods::history_test {

using trials::MakeTrial;
using trials::Measurement;
using trials::Outcome;

Measurement Completed(double step_s, double memory_bytes) {
  Measurement measurement;
  measurement.outcome = Outcome::kCompleted;
  measurement.step_times_s = {10.0 * step_s, step_s, step_s};
  measurement.peak_memory_bytes = memory_bytes;
  return measurement;
}

Measurement OutOfMemory() {
  Measurement measurement;
  measurement.outcome = Outcome::kOutOfMemory;
  measurement.step_times_s = {0.01};
  return measurement;
}

TEST(History, OutOfMemoryTellsNothingOfThroughput) {
  History history(3);
  history.Add(MakeTrial(0, {}, OutOfMemory()));
  EXPECT_EQ(history.ThroughputObservations().size(), 0);
  EXPECT_TRUE(std::isinf(history.best_steps_per_s()));
  ASSERT_EQ(history.ScoreObservations().size(), 1);
  EXPECT_EQ(history.ScoreObservations().value[0], 0.0);
  EXPECT_EQ(history.ScoreObservations().noise_variance[0], 0.0);
}

TEST(History, OutOfMemoryObservesTheGivenMultipleOfTheCapacity) {
  History history(3);
  history.Add(MakeTrial(0, {}, OutOfMemory()));
  history.Add(MakeTrial(1, {}, Completed(0.5, 12e9)));
  const auto memory = history.MemoryObservations(24e9, 1.1, 1e-4);
  ASSERT_EQ(memory.size(), 2);
  EXPECT_EQ(memory.value[0], 1.1);
  EXPECT_EQ(memory.value[1], 0.5);
  EXPECT_EQ(memory.noise_variance, Eigen::Vector2d(1e-4, 1e-4));
}

TEST(History, UnknownMemoryIsLeftOut) {
  History history(3);
  Measurement measurement = Completed(0.5, 1.0);
  measurement.peak_memory_bytes.reset();
  history.Add(MakeTrial(1, {}, measurement));
  history.Add(MakeTrial(0, {}, OutOfMemory()));
  history.Add(MakeTrial(2, {}, Completed(0.5, 1e9)));
  EXPECT_EQ(history.MemoryObservations(24e9, 1.1, 1e-4).size(), 2);
  EXPECT_EQ(history.RanWithUnknownMemory(), std::vector<int>{1});
}

TEST(History, CountsTrialsSinceTheBestRoseByAPercentInAll) {
  History history(6);
  EXPECT_EQ(history.trials_since_gain(), 0);
  history.Add(MakeTrial(0, {}, OutOfMemory()));
  EXPECT_EQ(history.trials_since_gain(), 1);
  history.Add(MakeTrial(1, {}, Completed(1.0, 1e9)));
  EXPECT_EQ(history.trials_since_gain(), 0);
  history.Add(MakeTrial(2, {}, Completed(1.0 / 1.008, 1e9)));
  EXPECT_EQ(history.trials_since_gain(), 1);
  history.Add(MakeTrial(3, {}, Completed(2.0, 1e9)));
  EXPECT_EQ(history.trials_since_gain(), 2);
  history.Add(
      MakeTrial(4, {}, Completed(1.0 / 1.016, 1e9)));  // two small gains
  EXPECT_EQ(history.trials_since_gain(), 0);
}

// Ten steps whose mean throughput is known to about 1%.
Measurement Noisy(double steps_per_s) {
  Measurement measurement;
  measurement.outcome = Outcome::kCompleted;
  measurement.step_times_s = {10.0};
  for (int i = 0; i < 10; ++i) {
    const double error = i % 2 == 0 ? 0.03 : -0.03;
    measurement.step_times_s.push_back(1.0 / (steps_per_s * (1.0 + error)));
  }
  return measurement;
}

TEST(History, ADifferenceThatNoiseExplainsIsNotAGain) {
  for (const bool of_mean : {false, true}) {
    const trials::ThroughputOptions options{.variance_of_mean = of_mean};
    History history(3, options);
    history.Add(MakeTrial(0, {}, Noisy(1.0), options));
    history.Add(MakeTrial(1, {}, Noisy(1.015), options));
    EXPECT_EQ(history.trials_since_gain(), 1);
    history.Add(MakeTrial(2, {}, Noisy(1.10), options));
    EXPECT_EQ(history.trials_since_gain(), 0);
  }
}

// Two estimates with standard errors of 0.03 and 0.04.
TEST(History, AGainIsMoreThanThreeErrorsOfTheDifference) {
  const auto gains = [](double steps_per_s) {
    History history(2, {.variance_of_mean = true});
    trials::Trial trial = MakeTrial(0, {}, Completed(1.0, 1e9));
    trial.throughput.steps_per_s = 1.0;
    trial.throughput.variance = 0.03 * 0.03;
    history.Add(trial);
    trial.candidate = 1;
    trial.throughput.steps_per_s = steps_per_s;
    trial.throughput.variance = 0.04 * 0.04;
    history.Add(trial);
    return history.trials_since_gain() == 0;
  };
  EXPECT_FALSE(gains(1.149));
  EXPECT_TRUE(gains(1.151));
}

TEST(History, TheVarianceOfAMeanIsThatOfAStepOverTheSteps) {
  const trials::ThroughputEstimate estimate{
      .steps_per_s = 1.0, .variance = 8.0, .steps_used = 4};
  EXPECT_EQ(History(1).VarianceOfMean(estimate), 2.0);
  EXPECT_EQ(History(1, {.variance_of_mean = true}).VarianceOfMean(estimate),
            8.0);
  EXPECT_EQ(History(1).VarianceOfMean({.variance = 8.0, .steps_used = 0}), 8.0);
}

TEST(History, MarksWhatWasTriedUntilNothingIsLeft) {
  History history(3);
  history.Add(MakeTrial(2, {}, OutOfMemory()));
  history.Add(MakeTrial(0, {}, Completed(0.5, 1e9)));
  EXPECT_EQ(history.tried(), (std::vector<char>{1, 0, 1}));
  EXPECT_FALSE(history.exhausted());
  history.Add(MakeTrial(1, {}, OutOfMemory()));
  EXPECT_TRUE(history.exhausted());
}

TEST(History, FailuresInARowEndWithAThroughput) {
  History history(5);
  history.Add(MakeTrial(0, {}, OutOfMemory()));
  history.Add(MakeTrial(1, {}, Measurement{}));
  EXPECT_EQ(history.failures_in_a_row(), 2);
  history.Add(MakeTrial(2, {}, Completed(0.5, 1e9)));
  EXPECT_EQ(history.failures_in_a_row(), 0);
  history.Add(MakeTrial(3, {}, OutOfMemory()));
  EXPECT_EQ(history.failures_in_a_row(), 1);
}

TEST(History, BestCountsEarlyTerminatedTrials) {
  History history(3);
  Measurement measurement = Completed(0.5, 1e9);
  measurement.outcome = Outcome::kTerminatedEarly;
  history.Add(MakeTrial(2, {}, measurement));
  EXPECT_DOUBLE_EQ(history.best_steps_per_s(), 2.0);
}

// 1%, 2% and 30% of scatter: the median counts, at the best throughput.
TEST(History, StepNoiseIsTheMedianRelativeOneAtTheBest) {
  History history(4);
  EXPECT_EQ(history.StepNoise(), 0.0);
  const auto add = [&](int candidate, double steps_per_s, double scatter) {
    Measurement measurement;
    measurement.outcome = Outcome::kCompleted;
    measurement.step_times_s = {9.0, 1.0 / (steps_per_s * (1.0 + scatter)),
                                1.0 / (steps_per_s * (1.0 - scatter))};
    history.Add(MakeTrial(candidate, {}, measurement));
  };
  add(0, 1.0, 0.01);
  add(1, 4.0, 0.02);
  add(2, 2.0, 0.3);
  history.Add(MakeTrial(3, {}, OutOfMemory()));
  EXPECT_NEAR(history.StepNoise(), 4.0 * 0.02, 1e-12);
}

// Surrogates encode candidates of the space, and a plan is none.
TEST(History, APlanCountsForTheBestAndIsNoObservation) {
  History history(2);
  trials::Trial plan = MakeTrial(-1, {}, Completed(0.25, 1e9));
  plan.plan = "layers=8 dp=4 tp=1";
  history.Add(plan);
  EXPECT_EQ(history.best_steps_per_s(), 4.0);
  EXPECT_EQ(history.trials_since_gain(), 0);
  EXPECT_EQ(history.size(), 0);
  EXPECT_FALSE(history.has_throughput());
  EXPECT_EQ(history.ThroughputObservations().size(), 0);
  EXPECT_EQ(history.MemoryObservations(24e9, 1.1, 1e-4).size(), 0);
  history.Add(MakeTrial(0, {}, Completed(0.5, 1e9)));
  history.Add(MakeTrial(1, {}, OutOfMemory()));
  EXPECT_TRUE(history.exhausted());
  EXPECT_EQ(history.best_steps_per_s(), 4.0);
  EXPECT_TRUE(history.HasTried(plan.plan));
  EXPECT_FALSE(history.HasTried("layers=8 dp=2 tp=1"));
}

}  // namespace methods::history_test
