// Where the search for hyperparameters starts.

#ifndef SURROGATES_GP_STARTING_POINTS_H_
#define SURROGATES_GP_STARTING_POINTS_H_

#include <cstdint>
#include <vector>

#include <Eigen/Core>

#include "surrogates/gp/likelihood.h"
#include "surrogates/parametric_mean.h"
#include "surrogates/surrogate.h"

namespace surrogates {

// The spread of observed values: the larger of the normal-consistent median
// absolute deviation and half of the standard deviation, so that neither one
// wild value nor a majority of equal values decides. With fewer than two
// values, or all of them equal, the magnitude of their median; 1 when that is
// zero or there is none.
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
    const ParametricMean& mean,
    const KernelPriors& priors,
    const Observations& observations,
    int dimensions,
    int count,
    std::uint64_t seed);

}  // namespace surrogates

#endif  // SURROGATES_GP_STARTING_POINTS_H_
