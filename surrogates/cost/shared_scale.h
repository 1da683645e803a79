// The size of a training job, estimated from its first measurements.

#pragma once

#include <vector>

#include <Eigen/Core>

#include "surrogates/parametric_mean.h"
#include "surrogates/surrogate.h"

namespace surrogates {

// The logarithm of the scale that a mean's relative coefficients share: the
// most plausible value given its prior and the measurements, with all
// coefficients at their typical values,
//
//   minimise  1/2 ((s - center) / stddev)^2 + sum_i huber(log(y_i / m_i(s)) /
//   e)
//
// where m is limited to the mean's clip, so that a configuration that ran out
// of memory as predicted carries no information, and one that ran although m
// predicts the opposite carries much. A single measurement determines the
// scale; with three of them, one that is off by a factor of ten has little
// influence.
//
// The value of the candidates in `at_most_one` is only known to be at most 1:
// configurations that ran without a report of their peak memory. Where m is
// larger they count as measured at 1.
//
// Source: own; e = 0.3, the error of such a model at its typical values.
// Shapes: scalar. Errors: throws std::invalid_argument without a shared scale.
// Note: values that are not positive are ignored.
[[nodiscard]] double MatchSharedScale(const ParametricMean& mean,
                                      const Observations& observations,
                                      const std::vector<int>& at_most_one = {});

// The log centers of all coefficients at that log scale. Shapes: [m].
[[nodiscard]] Eigen::VectorXd CentersAtScale(const ParametricMean& mean,
                                             double log_scale);

}  // namespace surrogates
