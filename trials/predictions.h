// Predictions of candidates that were made before any trial.

#pragma once

#include <functional>
#include <string>
#include <vector>

namespace trials {

// The default spread of measured peaks around predictions. Of the peaks of
// the Ultra-Scale Playbook (scenarios with even numbers), log(measured /
// predicted) has a standard deviation of 0.08 without outliers (1.48 median
// absolute deviations) and of 0.14 with them; of the peaks of Megatron-LM's CI,
// 0.02 and 0.11.
inline constexpr double kMemoryLogStddev = 0.1;

// The predicted cost of every candidate of a search space, in its order. It
// need not be accurate: methods correct it by their trials.
//
// Shapes: [N]. Units: s and bytes, all finite and > 0.
struct Predictions {
  // The model behind the numbers and the machine that it describes, one line
  // for display: "simulator of a100-8x4, megatron-core".
  std::string source;
  std::vector<double> step_time_s;
  std::vector<double> peak_memory_bytes;  // per GPU, largest over all ranks
  // Another assumption about the machine, or another model of the job.
  struct Alternative {
    std::string assumption;  // "links within hosts x 0.25", "Astra's model"
    // log(its probability / that of the predictions), before any trial.
    double log_odds = 0.0;
    std::vector<double> slowdown;  // step time over step_time_s; [N], as above
    // Where it is right, peak_memory_bytes are no better than step_time_s.
    bool another_model = false;
    // Peak over peak_memory_bytes, as above; empty: the same, as for all but
    // one of the alternatives at most.
    std::vector<double> memory = {};
  };
  // Computes them, for methods that weigh them by trials; empty: none. The
  // search space must exist until then.
  std::function<std::vector<Alternative>()> alternatives;
  // Standard deviation of log(peak / predicted peak); see FitProbability.
  double memory_log_stddev = kMemoryLogStddev;
};

// The probability that a configuration runs in memory, where log(peak) is
// normal around the log of the predicted peak M,
//
//   P = Phi(log(capacity / M) / log_stddev),
//
// and 0 or 1 for a log_stddev of 0.
[[nodiscard]] double FitProbability(double peak_bytes, double capacity_bytes,
                                    double log_stddev);

// The candidate to try first; -1 without candidates. The safe one maximizes the
// expected throughput P / t. The first one maximizes the expected throughput of
// a user who tries it and, if it runs out of memory, continues with the safe
// one s,
//
//   P / t + (1 - P) (1 - c) / t_s,
//
// where c = 0.05 is the share of the training that a failed try costs: a
// choice, large for a training of days. The safe one if there is no better,
// otherwise the lowest index of equals.
// Shapes: [N]. A candidate with P = 0 may have an infinite step time.
[[nodiscard]] int FirstToTry(const std::vector<double>& step_time_s,
                             const std::vector<double>& fit_probability);

// Candidates in the order in which to try them until one runs: FirstToTry, then
// the others in descending order of P / t. Ties keep the order of the
// candidates.
// Shapes: those of FirstToTry.
[[nodiscard]] std::vector<int> TryOrder(
    const std::vector<double>& step_time_s,
    const std::vector<double>& fit_probability);

// TryOrder of the predictions; candidates with P = 0 are last, in ascending
// order of memory.
[[nodiscard]] std::vector<int> Order(const Predictions& predictions,
                                     double capacity_bytes);

}  // namespace trials
