// A runner whose every step takes one second.

#pragma once

#include <optional>

#include "trials/trial_runner.h"

namespace trials {

class FakeRunner final : public TrialRunner {
 public:
  static constexpr double kSetup_s = 10.0;
  static constexpr double kTeardown_s = 2.0;

  explicit FakeRunner(Outcome outcome = Outcome::kCompleted)
      : outcome_(outcome) {}

  Measurement Run(const TrialRequest& request) override {
    Measurement measurement;
    measurement.outcome = outcome_;
    measurement.setup_s = kSetup_s;
    measurement.duration_s = kSetup_s + kTeardown_s;
    if (outcome_ != Outcome::kCompleted) {
      measurement.duration_s += 60.0;
      return measurement;
    }
    measurement.peak_memory_bytes = 1e9;
    for (int step = 1; step <= request.max_steps; ++step) {
      measurement.step_times_s.push_back(1.0);
      measurement.duration_s += 1.0;
      if (request.on_step && !request.on_step(1.0) &&
          step < request.max_steps) {
        measurement.outcome = Outcome::kTerminatedEarly;
        break;
      }
    }
    return measurement;
  }

  std::optional<double> ExactThroughput(const Candidate&) const override {
    return 1.0;
  }

 private:
  Outcome outcome_;
};

}  // namespace trials
