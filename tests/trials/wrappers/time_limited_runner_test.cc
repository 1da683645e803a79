#include "trials/wrappers/time_limited_runner.h"

#include <memory>

#include <gtest/gtest.h>

#include "tests/trials/wrappers/fake_runner.h"

namespace trials::time_limited_runner_test {

Measurement RunLimited(double limit_s, Outcome inner = Outcome::kCompleted,
                       std::function<bool(double)> on_step = {}) {
  TimeLimitedRunner runner(std::make_unique<FakeRunner>(inner));
  TrialRequest request;
  request.max_steps = 5;
  request.time_limit_s = limit_s;
  request.on_step = std::move(on_step);
  return runner.Run(request);
}

TEST(TimeLimitedRunner, AnAmpleLimitChangesNothing) {
  const Measurement measurement = RunLimited(100.0);
  EXPECT_EQ(measurement.outcome, Outcome::kCompleted);
  EXPECT_EQ(measurement.step_times_s.size(), 5u);
  EXPECT_DOUBLE_EQ(measurement.duration_s, 17.0);
}

TEST(TimeLimitedRunner, KeepsOnlyTheStepsThatFit) {
  const Measurement measurement = RunLimited(13.5);
  EXPECT_EQ(measurement.outcome, Outcome::kTimedOut);
  EXPECT_EQ(measurement.step_times_s.size(), 3u);
  EXPECT_DOUBLE_EQ(measurement.duration_s, 13.5);
}

TEST(TimeLimitedRunner, ASetUpBeyondTheLimitRunsNoStep) {
  const Measurement measurement = RunLimited(9.0);
  EXPECT_EQ(measurement.outcome, Outcome::kTimedOut);
  EXPECT_TRUE(measurement.step_times_s.empty());
  EXPECT_DOUBLE_EQ(measurement.duration_s, 9.0);
}

TEST(TimeLimitedRunner, FinishedStepsCountThoughTearDownDoesNotFit) {
  const Measurement measurement = RunLimited(15.5);
  EXPECT_EQ(measurement.outcome, Outcome::kCompleted);
  EXPECT_DOUBLE_EQ(measurement.duration_s, 15.5);
}

TEST(TimeLimitedRunner, TheCallerSeesOnlyStepsThatFit) {
  int seen = 0;
  (void)RunLimited(12.5, Outcome::kCompleted, [&](double) {
    ++seen;
    return true;
  });
  EXPECT_EQ(seen, 2);
}

TEST(TimeLimitedRunner, AFailureKeepsItsOutcomeIfItWasFoundInTime) {
  const Measurement found = RunLimited(30.0, Outcome::kOutOfMemory);
  EXPECT_EQ(found.outcome, Outcome::kOutOfMemory);
  EXPECT_DOUBLE_EQ(found.duration_s, 30.0);
  const Measurement unfound = RunLimited(5.0, Outcome::kOutOfMemory);
  EXPECT_EQ(unfound.outcome, Outcome::kTimedOut);
  EXPECT_DOUBLE_EQ(unfound.duration_s, 5.0);
}

TEST(TimeLimitedRunner, WithoutAWholeStepThePeakMemoryIsUnknown) {
  EXPECT_EQ(RunLimited(13.5).peak_memory_bytes, 1e9);
  for (const double limit_s : {9.0, 10.5}) {
    const Measurement trial = RunLimited(limit_s);
    EXPECT_EQ(trial.outcome, Outcome::kTimedOut);
    EXPECT_FALSE(trial.peak_memory_bytes.has_value());
  }
}

TEST(TimeLimitedRunner, AStopAfterTheLastStepIsACompletedTrial) {
  int seen = 0;
  const Measurement trial = RunLimited(100.0, Outcome::kCompleted,
                                       [&](double) { return ++seen < 5; });
  EXPECT_EQ(trial.outcome, Outcome::kCompleted);
}

// Steps of a second after a set-up of 10 s, without a tear-down.
class CountingRunner final : public TrialRunner {
 public:
  explicit CountingRunner(int& steps) : steps_(steps) {}

  Measurement Run(const TrialRequest& request) override {
    Measurement measurement{
        .outcome = Outcome::kCompleted, .setup_s = 10.0, .duration_s = 10.0};
    for (int step = 0; step < request.max_steps; ++step) {
      measurement.step_times_s.push_back(1.0);
      measurement.duration_s += 1.0;
      ++steps_;
      if (!request.on_step(1.0)) {
        break;
      }
    }
    return measurement;
  }
  std::optional<double> ExactThroughput(const Candidate&) const override {
    return 1.0;
  }

 private:
  int& steps_;
};

// Set-up is known only afterwards: steps end when they alone pass the limit.
TEST(TimeLimitedRunner, NoStepsRunAfterTheLimit) {
  const auto steps = [](double limit_s) {
    int count = 0;
    TimeLimitedRunner runner(std::make_unique<CountingRunner>(count));
    (void)runner.Run({.max_steps = 100, .time_limit_s = limit_s});
    return count;
  };
  EXPECT_EQ(steps(13.5), 14);
  EXPECT_EQ(steps(14.0), 15);
}

}  // namespace trials::time_limited_runner_test
