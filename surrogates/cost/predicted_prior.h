// Prior means around predictions of every candidate.

#pragma once

#include <Eigen/Core>

#include "surrogates/parametric_mean.h"

namespace surrogates {

// The mean of the logarithm of a target, throughput or memory, around its
// logarithm x by predictions, which another model's logarithm y corrects,
//
//   m = a + b (x - med x) + c d,   d = y - x (- med d unless level_of_y),
//   a ~ N(med x + shift, level_stddev^2),  b ~ N(1, 0.1^2),  c ~ N(0, 0.3^2).
//
// The errors of predictions are mostly ratios, and those of two models nearly
// independent: their average is better than either where neither was fitted,
// and worse than the one that was. So c starts at the predictions alone. It
// reaches y at c = 1, three deviations away, where predictions are useless.
// With level_of_y, that includes the level of y: the memory of a described job.
//
// Source: own; docs/decisions/0024-residual-process.md.
// Shapes: x and y are [N], features is [N, 3].
// Errors: throws std::invalid_argument for logarithms that are not finite.
[[nodiscard]] ParametricMean PredictedMean(const Eigen::VectorXd& x,
                                           const Eigen::VectorXd& y,
                                           bool level_of_y, double shift,
                                           double level_stddev);

}  // namespace surrogates
