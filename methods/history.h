// What a method has seen so far, in the forms that methods need.

#ifndef METHODS_HISTORY_H_
#define METHODS_HISTORY_H_

#include <limits>
#include <optional>
#include <vector>

#include "methods/method.h"
#include "surrogates/surrogate.h"
#include "trials/measurement.h"

namespace methods {

// The trials of one run. Every method keeps one.
class History {
 public:
  explicit History(int candidates)
      : tried_(static_cast<std::size_t>(candidates), 0) {}

  struct Entry {
    int candidate = 0;
    trials::Outcome outcome = trials::Outcome::kFailed;
    // Absent when the trial ran no step; an out-of-memory trial tells nothing
    // about throughput even if it ran some.
    std::optional<trials::ThroughputEstimate> throughput;
    std::optional<double> peak_memory_bytes;
  };

  void Add(int candidate,
           const trials::Measurement& measurement,
           const trials::ThroughputOptions& options);

  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }
  [[nodiscard]] int size() const { return static_cast<int>(entries_.size()); }
  // 1 for candidates that were tried, 0 for the others, [N].
  [[nodiscard]] const std::vector<char>& tried() const { return tried_; }
  [[nodiscard]] bool exhausted() const {
    return entries_.size() == tried_.size();
  }

  // Failures (out of memory, time-out, crash) since the last trial that gave
  // a throughput.
  [[nodiscard]] int failures_in_a_row() const { return failures_in_a_row_; }

  // The highest throughput of feasible trials, early-terminated ones
  // included; -infinity before the first.
  [[nodiscard]] double best_steps_per_s() const { return best_steps_per_s_; }

  // Trials since the best throughput last rose by more than 1% in all; the
  // first one counts as a rise.
  [[nodiscard]] int trials_since_gain() const { return trials_since_gain_; }

  [[nodiscard]] bool has_throughput() const {
    return failures_in_a_row_ < size();
  }

  // The standard deviation (steps/s) of the throughput of a single step at the
  // best throughput: the median over trials of the relative one, which hardly
  // depends on the configuration. 0 before the first throughput. `options` say
  // whether variances are those of steps or of means.
  [[nodiscard]] double StepNoise(
      const trials::ThroughputOptions& options) const;

  // Throughputs of feasible trials with their variance.
  [[nodiscard]] surrogates::Observations ThroughputObservations() const;

  // Throughputs of all trials, zero for failures: for methods that learn from
  // failures that way.
  [[nodiscard]] surrogates::Observations ScoreObservations() const;

  // Peak memory in units of the capacity; `out_of_memory_value` (>= 1) for
  // trials that ran out of it. Trials that do not tell their memory are left
  // out. `variance` is that of each value.
  [[nodiscard]] surrogates::Observations MemoryObservations(
      double capacity_bytes, double out_of_memory_value, double variance) const;

  // The candidates of trials that gave a throughput but not their memory: all
  // that is known is that it was enough.
  [[nodiscard]] std::vector<int> RanWithUnknownMemory() const;

 private:
  std::vector<Entry> entries_;
  std::vector<char> tried_;
  int failures_in_a_row_ = 0;
  int trials_since_gain_ = 0;
  double gained_steps_per_s_ = 0.0;  // by the last gain
  double best_steps_per_s_ = -std::numeric_limits<double>::infinity();
};

}  // namespace methods

#endif  // METHODS_HISTORY_H_
