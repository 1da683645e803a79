// The trials of a run so far, in the forms that methods need.

#pragma once

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "surrogates/surrogate.h"
#include "trials/objective.h"
#include "trials/trial.h"

namespace methods {

// What methods maximize, the value of a candidate (trials::Weight), as
// a trial observed it.
struct Observation {
  double value = trials::kUnknown;
  double variance = trials::kUnknown;
};

// The trials of one run. Every method has one; it is the only record of the
// candidates that were tried, and the only place where throughputs become
// values.
//
// A plan is no candidate of the space, and surrogates cannot encode it. Its
// trial is in plans() only, and counts for the best value.
class History {
 public:
  // `throughput` says how the throughput of the trials was estimated.
  explicit History(int candidates,
                   const trials::ThroughputOptions& throughput = {},
                   const trials::Weight& weight = {})
      : throughput_options_(throughput),
        weight_(weight),
        tried_(static_cast<std::size_t>(candidates), 0) {}

  // The trial of a candidate, or of the plan with this label, has begun. Until
  // Add of the trial, it counts as tried. Does nothing where it does already.
  void Start(int candidate, const std::string& plan = "");

  void Add(const trials::Trial& trial);

  // Adds the trials of another history, of which this one has the first, and
  // starts those that run in it.
  void Follow(const History& other);

  // The candidates that were started and not added.
  [[nodiscard]] const std::vector<int>& running() const { return running_; }

  [[nodiscard]] const std::vector<trials::Trial>& trials() const {
    return trials_;
  }
  [[nodiscard]] const trials::ThroughputOptions& throughput_options() const {
    return throughput_options_;
  }
  [[nodiscard]] const std::vector<trials::Trial>& plans() const {
    return plans_;
  }
  // Whether the candidate was tried; one outside the space has the index -1 and
  // is known by its label.
  [[nodiscard]] bool HasTried(int candidate, std::string_view label) const;
  [[nodiscard]] const trials::Weight& weight() const { return weight_; }
  [[nodiscard]] int size() const { return static_cast<int>(trials_.size()); }
  // The number of candidates that were chosen before the next one, whether
  // their trials have ended or not.
  [[nodiscard]] int turn() const {
    return size() + static_cast<int>(running_.size());
  }
  // That number with plans.
  [[nodiscard]] int turn_with_plans() const {
    return turn() + static_cast<int>(plans_.size() + running_plans_.size());
  }
  // 1 for candidates that were tried or run, 0 for the others, [N].
  [[nodiscard]] const std::vector<char>& tried() const { return tried_; }
  [[nodiscard]] bool exhausted() const {
    return trials_.size() + running_.size() == tried_.size();
  }

  // Failures (out of memory, time-out, crash) since the last trial that gave
  // a throughput.
  [[nodiscard]] int failures_in_a_row() const { return failures_in_a_row_; }

  [[nodiscard]] Observation ValueOf(const trials::Trial& trial) const;

  // The highest value of feasible trials, early-terminated ones included;
  // -infinity before the first.
  [[nodiscard]] double best_value() const { return best_value_; }
  // The steps of the trial that has it; empty if it was imported.
  [[nodiscard]] const std::vector<double>& best_step_times_s() const {
    return best_step_times_s_;
  }

  [[nodiscard]] bool has_throughput() const {
    return failures_in_a_row_ < size();
  }

  // The standard deviation of the value of a single step at the best value: the
  // median over trials of the relative one, which hardly depends on the
  // configuration. 0 before the first throughput.
  [[nodiscard]] double StepNoise() const;

  // The variance of the mean over the steps of a trial.
  [[nodiscard]] double VarianceOfMean(const trials::Trial& trial) const;

  // Runs of one candidate differ by this variance of their value, relative to
  // its square; 0: as much as their steps do.
  void set_run_variance(double relative) { run_variance_ = relative; }
  // The variance of the value that another run of the trial would show.
  [[nodiscard]] double VarianceOfRun(const trials::Trial& trial) const;

  // Values of feasible trials with their variance.
  [[nodiscard]] surrogates::Observations ThroughputObservations() const;

  // Values of all trials, zero for failures: for methods that learn from
  // failures that way.
  [[nodiscard]] surrogates::Observations ScoreObservations() const;

  // Peak memory in units of the capacity; `out_of_memory_value` (>= 1) for
  // trials that ran out of it, if it is given. Trials whose memory is unknown
  // are left out. `variance` is that of each value.
  [[nodiscard]] surrogates::Observations MemoryObservations(
      double capacity_bytes, std::optional<double> out_of_memory_value,
      double variance) const;

  // Trials that ran out of memory, and those with a throughput but without a
  // peak memory: it is only known that the memory was sufficient. The limit is
  // the capacity.
  [[nodiscard]] std::vector<surrogates::Bound> MemoryBounds() const;

 private:
  trials::ThroughputOptions throughput_options_;
  trials::Weight weight_;
  std::vector<trials::Trial> trials_;
  std::vector<trials::Trial> plans_;
  std::vector<char> tried_;
  std::vector<int> running_;
  std::vector<std::string> running_plans_;
  double run_variance_ = 0.0;
  int failures_in_a_row_ = 0;
  double best_value_ = -std::numeric_limits<double>::infinity();
  std::vector<double> best_step_times_s_;
};

}  // namespace methods
