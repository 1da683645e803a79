#include "trials/wrappers/time_limited_runner.h"

#include <memory>

#include <gtest/gtest.h>

#include "tests/trials/wrappers/fake_runner.h"

namespace trials {
namespace {

Measurement RunLimited(double limit_s,
                       Outcome inner = Outcome::kCompleted,
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

TEST(TimeLimitedRunner, TheCallerMayStopBeforeTheLimit) {
  int seen = 0;
  const Measurement measurement = RunLimited(
      100.0, Outcome::kCompleted, [&](double) { return ++seen < 2; });
  EXPECT_EQ(measurement.outcome, Outcome::kTerminatedEarly);
  EXPECT_EQ(seen, 2);
  EXPECT_DOUBLE_EQ(measurement.duration_s, 14.0);
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

TEST(TimeLimitedRunner, AStepThatEndsAtTheLimitIsKept) {
  EXPECT_EQ(RunLimited(12.0).step_times_s.size(), 2U);
}

TEST(TimeLimitedRunner, AStopAfterTheLastStepIsACompletedTrial) {
  int seen = 0;
  const Measurement trial = RunLimited(
      100.0, Outcome::kCompleted, [&](double) { return ++seen < 5; });
  EXPECT_EQ(trial.outcome, Outcome::kCompleted);
}

TEST(TimeLimitedRunner, TheTruthPasses) {
  const TimeLimitedRunner runner(std::make_unique<FakeRunner>());
  EXPECT_EQ(runner.ExactThroughput({}), 1.0);
}

}  // namespace
}  // namespace trials
