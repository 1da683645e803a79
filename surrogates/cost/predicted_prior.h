// Prior means from predictions of every candidate.

#ifndef SURROGATES_COST_PREDICTED_PRIOR_H_
#define SURROGATES_COST_PREDICTED_PRIOR_H_

#include "surrogates/parametric_mean.h"
#include "trials/predictions.h"

namespace surrogates {

// Throughput from the predicted step time T,
//
//   R = 1 / (c T + c_0),
//
// where c starts at 1 and c_0 at a small share of the median T. The predictions
// may be those of another machine: both are in units of a shared scale, which
// the first measurements determine (shared_scale.h).
//
// Shapes: features is [N, 2]. Units: step time in s.
// Errors: throws std::invalid_argument for predictions that are not finite and
// positive.
[[nodiscard]] ParametricMean PredictedThroughputPrior(
    const trials::Predictions& predictions);

// Peak memory in units of the GPU's capacity from the predicted peak M,
//
//   min(c M + c_0, clip).
//
// c starts at 1 or, if every candidate is predicted to need more than 0.8 of
// the capacity, at the value with which the smallest needs that much: a space
// in which nothing runs would not be searched. c has a scale as above.
//
// Shapes, errors: as above. Units: 1 = capacity.
[[nodiscard]] ParametricMean PredictedMemoryPrior(
    const trials::Predictions& predictions, double capacity_bytes, double clip);

}  // namespace surrogates

#endif  // SURROGATES_COST_PREDICTED_PRIOR_H_
