// Early termination on test functions: Fig. 14 of the paper.

#ifndef STUDIES_EARLY_TERMINATION_COMPARISON_H_
#define STUDIES_EARLY_TERMINATION_COMPARISON_H_

#include <vector>

#include "studies/output.h"

namespace studies {

struct ComparisonOptions {
  int repeats = 10;
  int rounds = 40;
  int q_max = 20;
  int q_min = 1;                                        // as in the paper
  std::vector<double> noise_levels = {0.02, 0.1, 0.5};  // of f's range
  int threads = 2;
};

// For every test function, noise level and repetition rule: the best value
// queried and the number of queries against rounds, and the value that
// Algorithm 3 would return (the best mean of a round that ran all its
// repetitions) against queries. Progress goes to standard error.
//
// Source: OPPA App. F.3.3.
[[nodiscard]] Output CompareRules(const ComparisonOptions& options,
                                  const Sink& sink);

}  // namespace studies

#endif  // STUDIES_EARLY_TERMINATION_COMPARISON_H_
