// The size of a training job, found from its first measurements.

#ifndef SURROGATES_COST_SHARED_SCALE_H_
#define SURROGATES_COST_SHARED_SCALE_H_

#include <vector>

#include <Eigen/Core>

#include "surrogates/parametric_mean.h"
#include "surrogates/surrogate.h"

namespace surrogates {

// The logarithm of the scale that a mean's relative coefficients share: of
// every guess relative to it, the most plausible under its own belief and what
// was measured, with all coefficients at their guess,
//
//   minimise  1/2 ((s - center) / stddev)^2 + sum_i huber(log(y_i / m_i(s)) /
//   e)
//
// where m is limited to the mean's clip, so that a configuration that ran out
// of memory where m says so tells nothing, and one that did not where m says so
// tells much. A single measurement sets it; one that is off by a factor of ten
// for reasons of its own does not move it far once there are three.
//
// Of the candidates in `at_most_one` it is only known that their value is at
// most 1: configurations that ran but did not tell their peak memory. Where m
// is larger they count as measured at 1.
//
// Source: own; e = 0.3, the error of such a model at its guess.
// Shapes: scalar. Errors: throws std::invalid_argument without a shared scale.
// Note: values must be positive; those that are not are passed over.
[[nodiscard]] double MatchSharedScale(const ParametricMean& mean,
                                      const Observations& observations,
                                      const std::vector<int>& at_most_one = {});

// Log centres of all coefficients at that log scale. Shapes: [m].
[[nodiscard]] Eigen::VectorXd CentersAtScale(const ParametricMean& mean,
                                             double log_scale);

}  // namespace surrogates

#endif  // SURROGATES_COST_SHARED_SCALE_H_
