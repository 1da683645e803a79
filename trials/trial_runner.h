// The interface of a backend: runs one trial.

#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "common/fields.h"
#include "trials/candidate.h"
#include "trials/measurement.h"
#include "trials/remaining.h"

namespace trials {

// The input of a trial. It does not identify the method that requests the
// trial.
struct TrialRequest {
  // A backend that cannot run plans throws (Candidate::RejectPlan); methods
  // suggest them only where Problem::runs_plans.
  Candidate candidate;
  int max_steps = 1;       // q_max > 0
  std::uint64_t seed = 0;  // all randomness of the trial comes from here
  double time_limit_s =
      std::numeric_limits<double>::infinity();  // set-up included
  // Called after every step with its time; false ends the trial there
  // (Outcome::kTerminatedEarly). Empty: run every step.
  std::function<bool(double step_time_s)> on_step;
  // The rule that on_step applies, for a backend that runs its trials in
  // another process.
  std::optional<StopRule> stop_rule;
  // What the search may still gain, as estimated before the trial.
  std::optional<Remaining> remaining;
  // Polled by backends on a real clock; true ends the trial at once, with
  // TrialInterrupted. Empty: never.
  std::function<bool()> interrupted;

  // What another process needs; it sets on_step by StopBy.
  OPPA_FIELDS(TrialRequest, candidate, max_steps, seed, time_limit_s,
              stop_rule);
};

// Makes a trial stop by a rule. A trial that ran all its steps has completed
// and is not stopped.
inline void StopBy(const std::optional<StopRule>& rule, TrialRequest& request) {
  request.stop_rule = rule;
  if (!rule) {
    return;
  }
  request.on_step = [rule = *rule, max_steps = request.max_steps,
                     step_times_s =
                         std::vector<double>()](double step_time_s) mutable {
    step_times_s.push_back(step_time_s);
    return std::cmp_greater_equal(step_times_s.size(), max_steps) ||
           !ShouldStop(rule, step_times_s);
  };
}

// Thrown if a trial ended because the search stops: there is no measurement.
class TrialInterrupted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A backend, or a wrapper around one (trials/wrappers/).
class TrialRunner {
 public:
  virtual ~TrialRunner() = default;

  // Runs one trial. Out of memory, timeout and crash are returned as Outcome;
  // only a broken set-up (a missing table, no GPU) throws.
  [[nodiscard]] virtual Measurement Run(const TrialRequest& request) = 0;

  // Steps per second without noise, if the backend provides it (simulated,
  // replayed); 0 for a candidate that does not fit; absent on real
  // hardware. Reports use it as the ground truth; methods never receive it.
  [[nodiscard]] virtual std::optional<double> ExactThroughput(
      const Candidate& candidate) const = 0;
};

}  // namespace trials
