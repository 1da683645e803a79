// Quantiles, medians and quartiles of samples.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace common {

struct Quartiles {
  double q1 = std::numeric_limits<double>::quiet_NaN();
  double median = std::numeric_limits<double>::quiet_NaN();
  double q3 = std::numeric_limits<double>::quiet_NaN();
};

// Quantile of a sorted sample by linear interpolation between order statistics,
// at position p (n - 1) counted from 0: type 7, the default of R and NumPy.
// Infinite values are allowed ("never reached"): between a finite and an
// infinite neighbor the quantile is infinite. NaN if there are no values.
//
// Source: Hyndman and Fan (1996), definition 7.
[[nodiscard]] inline double SortedQuantile(const std::vector<double>& sorted,
                                           double p) {
  if (sorted.empty()) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const double position = p * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(position));
  const double fraction = position - std::floor(position);
  if (fraction == 0.0 || sorted[below] == sorted[below + 1]) {
    return sorted[below];
  }
  return sorted[below] + fraction * (sorted[below + 1] - sorted[below]);
}

[[nodiscard]] inline Quartiles ComputeQuartiles(std::vector<double> values) {
  std::ranges::sort(values);
  return {.q1 = SortedQuantile(values, 0.25),
          .median = SortedQuantile(values, 0.5),
          .q3 = SortedQuantile(values, 0.75)};
}

// The mean of the two middle values, or the middle one; NaN if there are no
// values.
[[nodiscard]] inline double Median(std::vector<double> values) {
  if (values.empty()) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const auto middle =
      values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return values.size() % 2 == 1
             ? *middle
             : 0.5 * (*middle + *std::max_element(values.begin(), middle));
}

// The middle value, or the larger of the two middle values: always one of the
// values.
[[nodiscard]] inline double UpperMedian(std::vector<double> values) {
  const auto middle =
      values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace common
