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

// Five steps of 1 s after a set-up of 10 s, before a tear-down of 2 s. A
// failure takes a minute less.
TEST(TimeLimitedRunner, KeepsWhatFitsAndTheOutcomeThatWasFoundInTime) {
  const struct {
    double limit_s;
    Outcome inner, outcome;
    std::size_t steps;
    double duration_s;
    bool has_peak;
  } cases[] = {
      {100.0, Outcome::kCompleted, Outcome::kCompleted, 5, 17.0, true},
      {15.5, Outcome::kCompleted, Outcome::kCompleted, 5, 15.5, true},
      {13.5, Outcome::kCompleted, Outcome::kTimedOut, 3, 13.5, true},
      {10.5, Outcome::kCompleted, Outcome::kTimedOut, 0, 10.5, false},
      {9.0, Outcome::kCompleted, Outcome::kTimedOut, 0, 9.0, false},
      {30.0, Outcome::kOutOfMemory, Outcome::kOutOfMemory, 0, 30.0, false},
      {5.0, Outcome::kOutOfMemory, Outcome::kTimedOut, 0, 5.0, false}};
  for (const auto& each : cases) {
    SCOPED_TRACE(each.limit_s);
    const Measurement trial = RunLimited(each.limit_s, each.inner);
    EXPECT_EQ(trial.outcome, each.outcome);
    EXPECT_EQ(trial.step_times_s.size(), each.steps);
    EXPECT_DOUBLE_EQ(trial.duration_s, each.duration_s);
    EXPECT_EQ(trial.peak_memory_bytes.has_value(), each.has_peak);
  }
}

TEST(TimeLimitedRunner, TheCallerSeesOnlyStepsThatFit) {
  int seen = 0;
  (void)RunLimited(12.5, Outcome::kCompleted, [&](double) {
    ++seen;
    return true;
  });
  EXPECT_EQ(seen, 2);
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
