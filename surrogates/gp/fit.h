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

struct FitOptions {
  int max_iterations = 200;  // of one start
  // Successive halving: every start runs this many iterations, and the best
  // `survivors` of them run to convergence.
  int screening_iterations = 15;
  int survivors = 3;
  int threads = 1;
};

// Multistart: maximises the likelihood's objective, which has several local
// maxima, from every start and keeps the best (the first of equals). The result
// does not depend on the number of threads.
// Errors: throws std::invalid_argument without a start.
[[nodiscard]] HyperparameterFit MaximiseOverStarts(
    const Likelihood& likelihood,
    const std::vector<Hyperparameters>& starts,
    const HyperparameterBox& box,
    const FitOptions& options);

}  // namespace surrogates

#endif  // SURROGATES_GP_FIT_H_
