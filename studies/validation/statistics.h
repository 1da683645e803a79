// Error statistics of predictions relative to measurements.

#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "common/fields.h"

namespace studies {

inline constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();

// Absolute relative errors |predicted - measured| / measured.
struct ErrorSummary {
  int rows = 0;
  double mean = kUndefined;
  double median = kUndefined;
  double p90 = kUndefined;   // quantile of type 7, as everywhere (plots)
  double bias = kUndefined;  // mean of (predicted - measured) / measured

  OPPA_FIELDS(ErrorSummary, rows, mean, median, p90, bias);
};

// Pairs with a NaN are left out. Precondition: the same length.
[[nodiscard]] ErrorSummary SummariseErrors(const std::vector<double>& predicted,
                                           const std::vector<double>& measured);

// Spearman's rank correlation: Pearson's of the ranks, equal values sharing
// the mean of their ranks. NaN for fewer than two pairs, or when all values of
// one side are equal.
[[nodiscard]] double Spearman(const std::vector<double>& x,
                              const std::vector<double>& y);

// A number of rows out of others.
struct Share {
  int rows = 0;
  int of = 0;

  void Count(bool counts) {
    rows += counts ? 1 : 0;
    ++of;
  }
  void Add(const Share& other) {
    rows += other.rows;
    of += other.of;
  }
  // NaN out of none.
  [[nodiscard]] double Value() const {
    return of == 0 ? kUndefined : static_cast<double>(rows) / of;
  }
};

// One configuration of a scenario.
struct Candidate {
  // Seconds of a step; absent: does not run (out of memory).
  std::optional<double> measured_s;
  double predicted_s = 0.0;
  double fit_probability = 1.0;  // as predicted
};

// The cost of following the simulator: candidates are tried in the order of
// trials::TryOrder until one runs.
struct Pick {
  bool runs = false;             // the first try did not run out of memory
  double slowdown = kUndefined;  // measured / best measured - 1
};

// Absent when no candidate ran.
[[nodiscard]] std::optional<Pick> PickOf(const std::vector<Candidate>& all);

// How well predicted times order the candidates of one scenario that ran and
// whose predicted time is finite, whatever their memory.
struct Ordering {
  double spearman = kUndefined;
  // Of the candidate that is predicted to be the fastest, relative to the best
  // measured one; NaN without candidates.
  double fastest_slowdown = kUndefined;
  // Pairs whose faster one is predicted to be faster, of those whose measured
  // times differ by more than 5% of the shorter one.
  Share pairs;
};
[[nodiscard]] Ordering OrderingOf(const std::vector<Candidate>& all);

}  // namespace studies
