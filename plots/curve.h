// The best throughput of a run over its cost, and the median over repeats.

#pragma once

#include <vector>

#include "common/quantiles.h"
#include "plots/experiment_records.h"
#include "trials/record.h"

namespace plots {

// The cost of a search: search time (s), trials, or training steps run in them.
enum class Cost { kTime, kTrials, kSteps };

// The value of the incumbent: its measured throughput, or the noise-free one if
// the backend provides it.
enum class Value { kMeasured, kExact };

// What a run with this share of the optimum has really left to gain, as a share
// of its throughput, and whether that is little.
[[nodiscard]] inline double TrueGain(double share) { return 1.0 / share - 1.0; }
[[nodiscard]] inline bool IsWithin5(double share) {
  constexpr double kWithin5 = 0.95;
  return share >= kWithin5;
}

// One run as a step function of its cost: y[i] holds from x[i] on, until
// x[i + 1]; before x[0] it is 0.
struct StepCurve {
  std::vector<double> x;
  std::vector<double> y;
  // The end of the known part of the run: the x of its last trial, or infinity
  // where more of the same cost would change nothing (see RunCurve).
  double known_to = 0.0;
  // Whether it counts with its last value beyond that, or does not count.
  bool keeps_last = true;
};

[[nodiscard]] double ValueAt(const StepCurve& curve, double x);

// The first x at which the curve is at least `target`; infinity if none is.
[[nodiscard]] double FirstReached(const StepCurve& curve, double target);

// The throughput (steps/s) of the incumbent, the best of the completed trials
// so far. A run without an incumbent has 0 steps/s: it has not found a
// configuration that works.
//
// `known_to` is infinite for a finished run whose method was done or whose
// space was exhausted, and for one that spent the problem's time budget when
// the cost is time: it keeps its last value to the end of the axis.
[[nodiscard]] StepCurve IncumbentCurve(const Run& run,
                                       const trials::ProblemInfo& problem,
                                       Cost cost, Value value);

// The number of configurations tried against search time.
[[nodiscard]] StepCurve TrialCountCurve(const Run& run,
                                        const trials::ProblemInfo& problem);

// Training steps done by time t (s) when training with the incumbent begins
// as soon as the search has ended: those of the trials, each spread over its
// time after set-up, then the incumbent's (measured) throughput. Source: Fig.
// 5b.
[[nodiscard]] double TrainingStepsAt(const Run& run, double t);

// Median and quartiles over runs, at common points. NaN where no line is drawn:
// see Aggregate.
struct Band {
  std::vector<double> x;
  std::vector<common::Quartiles> y;
};

// The quartiles of runs that all have the value y.
[[nodiscard]] inline common::Quartiles AllAt(double y) {
  return {.q1 = y, .median = y, .q3 = y};
}

// The line ends where fewer than half of the runs are known, so that a long
// tail does not reflect the luck of a few; up to there a run that ended
// earlier, or has not progressed that far yet, counts with its last value.
[[nodiscard]] Band Aggregate(const std::vector<StepCurve>& curves,
                             const std::vector<double>& grid);

// The largest x at which Aggregate draws a line, leaving infinity out; 0 if
// there is none.
[[nodiscard]] double LineEnd(const std::vector<StepCurve>& curves);

// `points` values from `first` to `last`, both included; points > 1.
[[nodiscard]] std::vector<double> UniformGrid(double first, double last,
                                              int points);

}  // namespace plots
