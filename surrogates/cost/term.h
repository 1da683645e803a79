// Terms of an analytical cost model and where they are counted.

#ifndef SURROGATES_COST_TERM_H_
#define SURROGATES_COST_TERM_H_

#include <functional>
#include <string>
#include <vector>

#include "trials/parallel_config.h"

namespace surrogates {

// What the cost model knows of the machine: no speed, no size, only the shape.
struct ClusterShape {
  int gpus = 1;
  int gpus_per_node = 1;

  [[nodiscard]] bool multi_node() const { return gpus > gpus_per_node; }
};

// One term of a sum: its feature, and what is believed of its coefficient.
struct CostTerm {
  std::string name;
  std::string unit;
  std::function<double(const trials::ParallelConfig&)> feature;
  // Of the printed form only (typical_values.h guesses for the physical one):
  // the term at the candidate that has most of it, in units of a typical step
  // or of the capacity, and the standard deviation of that guess's logarithm.
  double share = 0.1;
  double log_stddev = 1.5;
};

// The terms of Eqs. 10-19 as the paper prints them; see cost_model.h.
[[nodiscard]] std::vector<CostTerm> PrintedTimeTerms(const ClusterShape& shape);
// The terms of Eq. 21 as printed.
[[nodiscard]] std::vector<CostTerm> PrintedMemoryTerms(
    const ClusterShape& shape);

// The same mechanisms with their dependence on every size; see cost_model.h.
[[nodiscard]] std::vector<CostTerm> PhysicalTimeTerms(
    const ClusterShape& shape);
[[nodiscard]] std::vector<CostTerm> PhysicalMemoryTerms(
    const ClusterShape& shape);

// Ring all-reduce over `ranks`: messages in sequence, and the part of the data
// that each rank sends once. Source: OPPA Eq. 11.
[[nodiscard]] inline double RingLatency(double ranks) {
  return 2.0 * (ranks - 1.0);
}
[[nodiscard]] inline double RingVolume(double ranks) {
  return (ranks - 1.0) / ranks;
}

}  // namespace surrogates

#endif  // SURROGATES_COST_TERM_H_
