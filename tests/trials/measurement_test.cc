#include "trials/measurement.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trials/trial.h"

namespace trials::measurement_test {

constexpr ThroughputOptions kPlain{.warmup_steps = 0, .outlier_iqr = 0.0};

TEST(Measurement, OutcomesHaveNamesThatReadBack) {
  for (const Outcome outcome :
       {Outcome::kCompleted, Outcome::kTerminatedEarly, Outcome::kOutOfMemory,
        Outcome::kTimedOut, Outcome::kFailed}) {
    Outcome read{};
    FromText(ToString(outcome), read);
    EXPECT_EQ(read, outcome);
  }
  EXPECT_EQ(ToString(Outcome::kOutOfMemory), "out_of_memory");
  Outcome unknown{};
  EXPECT_THROW(FromText("oom", unknown), std::invalid_argument);
}

// Eq. 28: r = mean of 1/t = (2 + 1 + 4) / 3, not 1 / mean of t.
TEST(Throughput, IsTheMeanAndVarianceOfTheInverseStepTimes) {
  const ThroughputEstimate estimate =
      EstimateThroughput({0.5, 1.0, 0.25}, kPlain);
  constexpr double kMean = 7.0 / 3.0;
  EXPECT_DOUBLE_EQ(estimate.steps_per_s, kMean);
  EXPECT_DOUBLE_EQ(estimate.variance,
                   (std::pow(2.0 - kMean, 2) + std::pow(1.0 - kMean, 2) +
                    std::pow(4.0 - kMean, 2)) /
                       3.0);
  EXPECT_EQ(estimate.steps_used, 3);
}

TEST(Throughput, VarianceOfTheMeanIsUnbiasedAndDividedByTheSteps) {
  ThroughputOptions options = kPlain;
  options.variance_of_mean = true;
  // 1/t = 1, 2: sample variance 0.5, of the mean 0.25.
  EXPECT_DOUBLE_EQ(EstimateThroughput({1.0, 0.5}, options).variance, 0.25);
  EXPECT_EQ(EstimateThroughput({1.0}, options).variance, 0.0);
}

TEST(Throughput, IsUnknownUntilAStepAfterTheWarmUpIsMeasured) {
  ThroughputOptions options = kPlain;
  options.warmup_steps = 2;
  for (const std::vector<double>& times :
       {std::vector<double>{}, {2.0}, {2.0, 2.0}}) {
    const ThroughputEstimate none = EstimateThroughput(times, options);
    EXPECT_TRUE(std::isnan(none.steps_per_s)) << times.size();
    EXPECT_EQ(none.steps_used, 0);
  }
  EXPECT_EQ(EstimateThroughput({2.0, 2.0, 1.0}, options).steps_per_s, 1.0);
}

// Median 1.02, quartiles 1.01 and 1.03: what is 0.04 away or more goes.
TEST(Throughput, OutliersFromTwoInterquartileRangesAreDropped) {
  ThroughputOptions options = kPlain;
  options.outlier_iqr = 2.0;
  const std::vector<double> times = {1.00, 1.01, 1.02, 1.03, 5.00};
  EXPECT_EQ(EstimateThroughput(times, options).steps_used, 4);
  EXPECT_NEAR(EstimateThroughput(times, options).steps_per_s, 0.985, 1e-3);
  options.outlier_iqr = 0.0;
  EXPECT_EQ(EstimateThroughput(times, options).steps_used, 5);
}

TEST(Throughput, EqualStepsAreNoOutliers) {
  const ThroughputEstimate estimate =
      EstimateThroughput({9.0, 2.0, 2.0, 2.0, 2.0, 2.0});
  EXPECT_DOUBLE_EQ(estimate.steps_per_s, 0.5);
  EXPECT_EQ(estimate.variance, 0.0);
  EXPECT_EQ(estimate.steps_used, 5);
}

TEST(Throughput, ATightOutlierLimitNeverDropsEverything) {
  ThroughputOptions options = kPlain;
  options.outlier_iqr = 0.5;
  const ThroughputEstimate estimate = EstimateThroughput({1.0, 2.0}, options);
  EXPECT_DOUBLE_EQ(estimate.steps_per_s, 0.75);
  EXPECT_EQ(estimate.steps_used, 2);
}

TEST(StopRule, NeverStopsBeforeTheMinimumOfSteps) {
  const StopRule rule{.q_min = 3, .best_steps_per_s = 100.0};
  EXPECT_FALSE(ShouldStop(rule, {}));
  EXPECT_FALSE(ShouldStop(rule, {1.0, 1.0}));
  EXPECT_TRUE(ShouldStop(rule, {1.0, 1.0, 1.0}));
}

TEST(StopRule, StopsBelowTheBestPlusTau) {
  StopRule rule{.q_min = 1, .best_steps_per_s = 1.0, .tau_steps_per_s = 0.5};
  rule.throughput = kPlain;
  EXPECT_TRUE(ShouldStop(rule, {0.7}));         // 1.43 < 1.5
  EXPECT_FALSE(ShouldStop(rule, {1.0 / 1.5}));  // not below
  EXPECT_FALSE(ShouldStop(rule, {0.5}));
}

// Every program needs its first six steps to settle; the last of them is still
// 1.2 times as long. A configuration that is 10% faster than the best one
// throughout shows no more than 0.95 of the best one's mean by then.
TEST(StopRule, ATrialIsComparedWithTheFirstStepsOfTheBest) {
  std::vector<double> best = {3.0, 1.5, 1.4, 1.3, 1.2};
  best.resize(20, 1.0);
  StopRule rule{.q_min = 5,
                .best_steps_per_s = EstimateThroughput(best).steps_per_s,
                .tau_steps_per_s = 0.0,
                .best_step_times_s = best};
  const auto times = [&](double factor, int steps) {
    std::vector<double> scaled(best.begin(), best.begin() + steps);
    std::ranges::for_each(scaled, [&](double& time) { time *= factor; });
    return scaled;
  };
  for (int steps = 5; steps < 20; ++steps) {
    EXPECT_FALSE(ShouldStop(rule, times(1.0 / 1.1, steps))) << steps;
    EXPECT_TRUE(ShouldStop(rule, times(1.1, steps))) << steps;
  }
  // A trial that settles at once stops as before.
  EXPECT_TRUE(ShouldStop(rule, std::vector<double>(20, 1.1)));
  rule.best_step_times_s = {};
  EXPECT_TRUE(ShouldStop(rule, times(1.0 / 1.1, 5)));
}

// Eq. 56 with c_1 s = 0.1: after 4 of 5 steps (one is warm-up) and q_min = 5
// a trial must beat the best by 0.1 (1/2 + 1/2), after 16 by 0.1 (1/2 + 1/4).
TEST(StopRule, TheMarginOfTheTheoryShrinksWithTheSteps) {
  StopRule rule{.q_min = 5,
                .best_steps_per_s = 1.0,
                .tau_steps_per_s = 0.0,
                .confidence_steps_per_s = 0.1};
  EXPECT_DOUBLE_EQ(TauOf(rule, 4), 0.1);
  EXPECT_DOUBLE_EQ(TauOf(rule, 16), 0.075);
  const double time_s = 1.0 / 1.09;  // 9% better than the best
  EXPECT_TRUE(ShouldStop(rule, std::vector<double>(5, time_s)));
  EXPECT_FALSE(ShouldStop(rule, std::vector<double>(17, time_s)));
}

TEST(Measurement, AnImplausibleValueIsAFailureThatNamesIt) {
  for (const double step_time_s : {0.0, 1e-160, 9e-7, 1.1e6, -1.0, kUnknown}) {
    Measurement trial{.outcome = Outcome::kCompleted,
                      .step_times_s = {0.1, step_time_s, 0.1}};
    RejectImplausible(trial);
    EXPECT_EQ(trial.outcome, Outcome::kFailed) << step_time_s;
    EXPECT_TRUE(trial.step_times_s.empty());
    EXPECT_NE(trial.message.find("step_time_s = "), std::string::npos);
  }
  Measurement memory{.outcome = Outcome::kCompleted,
                     .step_times_s = {0.1},
                     .peak_memory_bytes = 1e19};
  RejectImplausible(memory);
  EXPECT_EQ(memory.outcome, Outcome::kFailed);
  memory.outcome = Outcome::kOutOfMemory;
  memory.peak_memory_bytes = 1e19;
  RejectImplausible(memory);
  EXPECT_EQ(memory.outcome, Outcome::kOutOfMemory) << "whatever its peak was";
  EXPECT_FALSE(memory.peak_memory_bytes.has_value());
  Measurement good{.outcome = Outcome::kCompleted,
                   .step_times_s = {kLeastStepSeconds, kMostStepSeconds},
                   .peak_memory_bytes = 1e12};
  RejectImplausible(good);
  EXPECT_EQ(good.outcome, Outcome::kCompleted);
  EXPECT_EQ(good.step_times_s.size(), 2U);
}

TEST(Measurement, TimesSinceTheBeginningAreNoSteps) {
  EXPECT_THAT(WhyNoSteps({13.0, 19.0, 25.1, 31.0, 37.2}),
              testing::HasSubstr("grows evenly, from 13 to 37.2 s"));
  EXPECT_THAT(WhyNoSteps({13.0, 9.5, 8.33, 7.75, 7.4}),
              testing::HasSubstr("of steps of 6"));
  EXPECT_THAT(WhyNoSteps({75.5, 60.4, 45.3, 30.2, 15.1}),
              testing::HasSubstr("falls evenly, from 75.5 to 15.1 s: it is "
                                 "that until the end"));
  EXPECT_EQ(WhyNoSteps({13.0, 6.0, 6.1, 6.05, 6.02}), "");
  EXPECT_EQ(WhyNoSteps({6.0, 6.1, 6.2, 6.3, 6.4}), "") << "a slow drift";
  const std::vector<double> warm_up = {0.1, 0.087, 0.076, 0.0685, 0.062};
  EXPECT_THAT(WhyNoSteps(warm_up), testing::HasSubstr("falls evenly"));
  EXPECT_EQ(WhyNoSteps(warm_up, true), "") << "of a trial that was stopped";
  EXPECT_THAT(WhyNoSteps({13.0, 9.5, 8.33, 7.75, 7.4}, true),
              testing::HasSubstr("mean since the beginning"));
  EXPECT_EQ(WhyNoSteps({13.0, 9.0, 7.5, 6.5, 6.1}), "") << "a warm-up";
  EXPECT_EQ(WhyNoSteps({6.0, 6.0, 6.0, 6.0, 6.0}), "");
  Measurement trial{.outcome = Outcome::kCompleted,
                    .step_times_s = {1.0, 2.0, 3.0, 4.0, 5.0}};
  RejectImplausible(trial);
  EXPECT_EQ(trial.outcome, Outcome::kFailed);
}

TEST(StopRule, WithoutABestNothingStops) {
  EXPECT_FALSE(ShouldStop(StopRule{}, {1e9, 1e9, 1e9}));
}

}  // namespace trials::measurement_test
