#include "trials/wrappers/time_limited_runner.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace trials {

TimeLimitedRunner::TimeLimitedRunner(std::unique_ptr<TrialRunner> runner)
    : runner_(std::move(runner)) {}

Measurement TimeLimitedRunner::Run(const TrialRequest& request) {
  // Steps beyond the limit are seen by the wrapped runner alone.
  TrialRequest inner = request;
  double elapsed_s = 0.0;  // of steps; set-up is known only afterwards
  inner.on_step = [&](double step_time_s) {
    elapsed_s += step_time_s;
    return elapsed_s <= request.time_limit_s;
  };
  Measurement measurement = runner_->Run(inner);
  const double limit_s = request.time_limit_s;
  const bool failed = measurement.outcome == Outcome::kOutOfMemory ||
                      measurement.outcome == Outcome::kFailed;
  if (failed && measurement.setup_s <= limit_s) {
    measurement.duration_s = std::min(measurement.duration_s, limit_s);
    return measurement;
  }
  const double teardown_s = [&] {
    double rest_s = measurement.duration_s - measurement.setup_s;
    for (const double step_s : measurement.step_times_s) {
      rest_s -= step_s;
    }
    return std::max(rest_s, 0.0);
  }();

  std::vector<double> all = std::move(measurement.step_times_s);
  measurement.step_times_s.clear();
  double now_s = measurement.setup_s;
  measurement.outcome = Outcome::kTimedOut;
  for (const double step_s : all) {
    if (now_s + step_s > limit_s) {
      break;
    }
    now_s += step_s;
    measurement.step_times_s.push_back(step_s);
    if (request.on_step && !request.on_step(step_s) &&
        std::cmp_less(measurement.step_times_s.size(), request.max_steps)) {
      measurement.outcome = Outcome::kTerminatedEarly;
      break;
    }
    if (std::cmp_equal(measurement.step_times_s.size(), request.max_steps)) {
      measurement.outcome = Outcome::kCompleted;
      break;
    }
  }
  if (measurement.outcome == Outcome::kTimedOut) {
    measurement.message = "cut off at the time limit";
    if (measurement.step_times_s.empty()) {
      measurement.peak_memory_bytes.reset();  // no whole step was observed
    }
    measurement.duration_s = limit_s;
  } else {
    measurement.duration_s = std::min(now_s + teardown_s, limit_s);
  }
  return measurement;
}

std::optional<double> TimeLimitedRunner::ExactThroughput(
    const Candidate& candidate) const {
  return runner_->ExactThroughput(candidate);
}

}  // namespace trials
