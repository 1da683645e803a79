// The result of a trial: step times, memory, cost, and how it ended.

#pragma once

#include <array>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/fields.h"

namespace trials {

using common::FromText;
using common::ToString;

inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// How a trial ended. Everything but kCompleted and kTerminatedEarly is a
// failure; a failure is data to learn from, not an exception.
enum class Outcome {
  kCompleted,        // ran every requested step
  kTerminatedEarly,  // stopped by the method's StopRule
  kOutOfMemory,      // the configuration does not fit
  kTimedOut,         // cut off by a time limit: its own or the search budget
  kFailed,           // anything else: crash, hang, bad output
  kDiverged,         // it trains nothing: the loss is not finite
};

constexpr std::array<std::string_view, 6> NamesOf(Outcome /*type*/) {
  return {"completed", "terminated_early", "out_of_memory",
          "timed_out", "failed",           "diverged"};
}

using LossCurve = std::map<int, double>;

// The result of one trial.
struct Measurement {
  Outcome outcome = Outcome::kFailed;
  std::vector<double> step_times_s;  // in order, the slow first step included
  std::optional<double>
      peak_memory_bytes;    // maximum over ranks; absent if unknown
  double setup_s = 0.0;     // launch, model build, data
  double duration_s = 0.0;  // set-up, steps, tear-down: the trial's cost
  std::string message;      // reason of a failure, for display; one line
  // The training loss by step; absent where none was read. Records of trials
  // do not have it.
  std::optional<LossCurve> losses = std::nullopt;

  OPPA_FIELDS(Measurement, outcome, step_times_s, peak_memory_bytes, setup_s,
              duration_s, message, losses);
};

// No training step is shorter, none is longer that a search could wait for, and
// no GPU has more memory.
inline constexpr double kLeastStepSeconds = 1e-6;
inline constexpr double kMostStepSeconds = 1e6;
inline constexpr double kMostMemoryBytes = 1e18;

// Why times of steps, in their order, are none: times since the beginning or
// until the end, or means since then; "" for others. `may_settle`: they end
// early, perhaps within the warm-up, so that times that fall are no reason.
[[nodiscard]] std::string WhyNoSteps(const std::vector<double>& step_times_s,
                                     bool may_settle = false);

// What a measurement is never outside of; LimitsOf (flop.h) has those of a job.
struct MeasurementLimits {
  double least_step_s = kLeastStepSeconds;
  double least_memory_bytes = 0.0;  // of a measurement that is not 0
  double most_memory_bytes = kMostMemoryBytes;
  std::string work;  // what takes least_step_s, for display; "" if nothing does
};

// Turns a measurement with a value outside of these limits into a failed one
// without steps, whose message has the value: a single one would outweigh all
// others in a model, or exceed the range of its arithmetic.
void RejectImplausible(Measurement& measurement,
                       const MeasurementLimits& limits = {});

// The throughput of a trial as methods receive it.
struct ThroughputEstimate {
  double steps_per_s = kUnknown;
  double variance = kUnknown;  // (steps/s)^2
  int steps_used = 0;          // after outlier removal
};

struct ThroughputOptions {
  // Steps at the start that are not counted (warm-up); >= 0.
  int warmup_steps = 1;
  // A step time at least this many inter-quartile ranges from the median is
  // dropped; 0 keeps all.
  double outlier_iqr = 2.0;
  // Eq. 28 as printed is the variance of a single step. True divides by the
  // number of steps (and uses the unbiased form): the variance of the mean.
  bool variance_of_mean = false;

  OPPA_FIELDS(ThroughputOptions, warmup_steps, outlier_iqr, variance_of_mean);
};

// Estimates the throughput from step times,
//
//   r = (1/q) sum_j 1/t_j,   var = (1/q) sum_j (1/t_j - r)^2,
//
// after dropping the warm-up steps and the outliers. If no step is left after
// the warm-up, the estimate is NaN.
//
// Source: OPPA Eq. 28, App. F.1-F.2.
[[nodiscard]] ThroughputEstimate EstimateThroughput(
    const std::vector<double>& step_times_s,
    const ThroughputOptions& options = {});

// When to stop a trial that is running: after step q >= q_min, if there is an
// estimate and
//
//   r_q < best + tau_q,   tau_q = tau + c (1 / sqrt(n_min) + 1 / sqrt(n)),
//
// where n steps of the q are used by the estimate of r_q and n_min = q_min less
// the warm-up, at least 1. A fixed tau has c = 0; the theory has tau = 0 and
// c = c_1 s, s the standard deviation of a step's throughput.
//
// Where the first steps of every trial are slower (compilation, tuning of
// kernels, filling of caches), `best` is multiplied by the share of its
// throughput that the best trial showed after as many steps, min(1, r_q / r).
//
// Source: OPPA Eqs. 5 and 56 and Algorithm 3, lines 16-18. `best` is that of
// feasible trials only (DESIGN: the printed maximum would include infeasible
// ones).
struct StopRule {
  int q_min = 0;  // steps that always run; counted as run, warm-up included
  double best_steps_per_s = -std::numeric_limits<double>::infinity();
  double tau_steps_per_s = 1e-3;
  double confidence_steps_per_s = 0.0;  // c, >= 0
  ThroughputOptions throughput;
  std::vector<double> best_step_times_s;  // empty: first steps are like others

  OPPA_FIELDS(StopRule, q_min, best_steps_per_s, tau_steps_per_s,
              confidence_steps_per_s, throughput, best_step_times_s);
};

// tau_q of the rule when the estimate uses `steps_used` >= 1 steps.
[[nodiscard]] double TauOf(const StopRule& rule, int steps_used);

// True when a trial with these step times should stop.
[[nodiscard]] bool ShouldStop(const StopRule& rule,
                              const std::vector<double>& step_times_s);

}  // namespace trials
