// The search for the most plausible hyperparameters.

#ifndef SURROGATES_GP_FIT_H_
#define SURROGATES_GP_FIT_H_

#include <vector>

#include <Eigen/Core>

#include "surrogates/gp/likelihood.h"

namespace surrogates {

// lower <= x <= upper on packed parameters (see Likelihood).
struct HyperparameterBox {
  Eigen::VectorXd lower;
  Eigen::VectorXd upper;
};

struct HyperparameterFit {
  Hyperparameters best;
  double log_posterior = 0.0;  // the objective of `likelihood` there
  int evaluations = 0;         // over all starts
  int jitter_retries = 0;      // over all starts
  bool converged = false;      // the best start
};

// Maximises the likelihood's objective from every start, on up to `threads`
// threads, and keeps the best (the first of equals): the objective has many
// local maxima. The result does not depend on the number of threads.
// Errors: throws std::invalid_argument without a start.
[[nodiscard]] HyperparameterFit MaximiseOverStarts(
    const Likelihood& likelihood,
    const std::vector<Hyperparameters>& starts,
    const HyperparameterBox& box,
    int max_iterations,
    int threads);

}  // namespace surrogates

#endif  // SURROGATES_GP_FIT_H_
