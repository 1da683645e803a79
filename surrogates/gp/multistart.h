// The fit of hyperparameters: starting points and a search from each.

#pragma once

#include <cstdint>
#include <vector>

#include <Eigen/Core>

#include "surrogates/gp/likelihood.h"
#include "surrogates/gp/minimize.h"
#include "surrogates/parametric_mean.h"
#include "surrogates/surrogate.h"

namespace surrogates {

// The spread of observed values: the larger of the normal-consistent median
// absolute deviation and half of the standard deviation, so that neither one
// outlier nor a majority of equal values dominates. With fewer than two values,
// or all of them equal, the magnitude of their median; 1 when that is zero or
// there is none.
[[nodiscard]] double TargetSpread(const Eigen::VectorXd& values);

// The modes of all priors.
[[nodiscard]] Hyperparameters PriorModes(const ParametricMean& mean,
                                         const KernelPriors& priors,
                                         int dimensions);

// Starting points of the fit: the priors' modes, and `count` - 1 draws from the
// priors, which are a function of the seed and the number of observations. All
// but the first have their coefficients multiplied by a common factor that puts
// the median of the mean at that of the data.
[[nodiscard]] std::vector<Hyperparameters> StartingPoints(
    const ParametricMean& mean, const KernelPriors& priors,
    const Observations& observations, int dimensions, int count,
    std::uint64_t seed);

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
  Minimizer minimizer = Minimizer::kLbfgs;
  int max_evaluations = 250;  // of one start, >= 1
  // Successive halving: every start has this many evaluations, and the best
  // `survivors` of them then run to convergence.
  int screening_evaluations = 18;  // >= 1
  int survivors = 3;
  int threads = 1;
};

// Multistart: maximizes the likelihood's objective, which has several local
// maxima, from every start and keeps the best (the first of equals). The result
// does not depend on the number of threads.
// Errors: throws std::invalid_argument without a start.
[[nodiscard]] HyperparameterFit MaximiseOverStarts(
    const Likelihood& likelihood, const std::vector<Hyperparameters>& starts,
    const HyperparameterBox& box, const FitOptions& options);

}  // namespace surrogates
