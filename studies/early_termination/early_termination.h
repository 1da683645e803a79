// The parts of the study: a demonstration, a comparison of rules on test
// functions, and a check of the theorems.

#pragma once

#include <vector>

#include "studies/output.h"

namespace studies {

// A function of one variable on [0, 5], known at three places, is queried
// repeatedly at one further point: one that is not optimal (x = 2), and one
// that is (x = 4.2). The study shows, after 0, 1, 20 and 100 queries, the
// posterior and the distributions of the place and of the value of the maximum.
//
// Source: OPPA App. F.3.1.
[[nodiscard]] Output DemonstrateRepeats();

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

struct RegretOptions {
  int repeats = 20;
  int rounds = 100;
  int q_max = 20;
  double rkhs_norm = 2.0;  // B
  double delta = 0.1;
  std::vector<int> q_min = {1, 5, 10};
  std::vector<double> noise_levels = {1e-4, 1e-2, 0.1, 1.0};
  int levels = 15;  // a grid of levels x levels candidates
  double length_scale = 0.2;
  int threads = 2;
};

// Algorithm 2 with the beta_i of Eq. 32 and the tau_q of Eq. 56 (and with a
// fixed tau) on random functions of known RKHS norm under a known kernel, so
// that Assumption F.1 holds literally:
//
//   Lemma F.3    |f - mu| <= beta_i sigma everywhere, except in delta of runs
//   Theorem F.5  cumulative regret against its bound, printed and corrected
//   Theorem F.8  rounds that are worse than an earlier one and still run all
//                q_max queries: in at most delta of the runs there is any
//   and a case that the theorem does not cover: rounds that are better than all
//   before and stopped all the same.
//
// Source: OPPA App. F.3.2.
[[nodiscard]] Output CheckTheorems(const RegretOptions& options);

}  // namespace studies
