// The trials of a run so far, in the forms that methods need.

#ifndef METHODS_HISTORY_H_
#define METHODS_HISTORY_H_

#include <limits>
#include <string_view>
#include <vector>

#include "surrogates/surrogate.h"
#include "trials/trial.h"

namespace methods {

// The trials of one run. Every method has one; it is the only record of the
// candidates that were tried.
//
// A plan is no candidate of the space, and surrogates cannot encode it. Its
// trial is in plans() only, and counts for the best throughput and for gains.
class History {
 public:
  // `throughput` says how the throughput of the trials was estimated.
  explicit History(int candidates,
                   const trials::ThroughputOptions& throughput = {})
      : throughput_options_(throughput),
        tried_(static_cast<std::size_t>(candidates), 0) {}

  void Add(const trials::Trial& trial);

  [[nodiscard]] const std::vector<trials::Trial>& trials() const {
    return trials_;
  }
  [[nodiscard]] const trials::ThroughputOptions& throughput_options() const {
    return throughput_options_;
  }
  [[nodiscard]] const std::vector<trials::Trial>& plans() const {
    return plans_;
  }
  // By the text of a plan.
  [[nodiscard]] bool HasTried(std::string_view plan) const;
  [[nodiscard]] int size() const { return static_cast<int>(trials_.size()); }
  // 1 for candidates that were tried, 0 for the others, [N].
  [[nodiscard]] const std::vector<char>& tried() const { return tried_; }
  [[nodiscard]] bool exhausted() const {
    return trials_.size() == tried_.size();
  }

  // Failures (out of memory, time-out, crash) since the last trial that gave
  // a throughput.
  [[nodiscard]] int failures_in_a_row() const { return failures_in_a_row_; }

  // The highest throughput of feasible trials, early-terminated ones
  // included; -infinity before the first.
  [[nodiscard]] double best_steps_per_s() const { return best_steps_per_s_; }

  // Trials since the last gain: a rise of the best throughput, in one or
  // several trials, by more than 1% and by more than three standard errors of
  // the difference of the two estimates. The first throughput is a gain.
  [[nodiscard]] int trials_since_gain() const { return trials_since_gain_; }

  [[nodiscard]] bool has_throughput() const {
    return failures_in_a_row_ < size();
  }

  // The standard deviation (steps/s) of the throughput of a single step at the
  // best throughput: the median over trials of the relative one, which hardly
  // depends on the configuration. 0 before the first throughput.
  [[nodiscard]] double StepNoise() const;

  // The variance of the mean over the steps of a trial.
  [[nodiscard]] double VarianceOfMean(
      const trials::ThroughputEstimate& estimate) const;

  // Throughputs of feasible trials with their variance.
  [[nodiscard]] surrogates::Observations ThroughputObservations() const;

  // Throughputs of all trials, zero for failures: for methods that learn from
  // failures that way.
  [[nodiscard]] surrogates::Observations ScoreObservations() const;

  // Peak memory in units of the capacity; `out_of_memory_value` (>= 1) for
  // trials that ran out of it. Trials whose memory is unknown are left
  // out. `variance` is that of each value.
  [[nodiscard]] surrogates::Observations MemoryObservations(
      double capacity_bytes, double out_of_memory_value, double variance) const;

  // The candidates of trials with a throughput but without a peak memory: it is
  // only known that the memory was sufficient.
  [[nodiscard]] std::vector<int> RanWithUnknownMemory() const;

 private:
  trials::ThroughputOptions throughput_options_;
  std::vector<trials::Trial> trials_;
  std::vector<trials::Trial> plans_;
  std::vector<char> tried_;
  int failures_in_a_row_ = 0;
  int trials_since_gain_ = 0;
  double gained_steps_per_s_ = 0.0;  // by the last gain
  double gained_variance_ = 0.0;     // of that estimate
  double best_steps_per_s_ = -std::numeric_limits<double>::infinity();
};

}  // namespace methods

#endif  // METHODS_HISTORY_H_
