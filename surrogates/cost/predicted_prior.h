// Prior means that are predictions of every candidate with corrected scale and
// offset.

#pragma once

#include "surrogates/parametric_mean.h"
#include "trials/predictions.h"

namespace surrogates {

// Throughput from the predicted step time T,
//
//   R = 1 / (c T + c_0),
//
// where c starts at 1 and c_0 at a small share of the median T. Both are in
// units of a shared scale, which the first measurements determine
// (shared_scale.h), because the predictions may be those of another machine.
//
// Shapes: features is [N, 2].
// Units:  T in s, R in steps/s.
// Errors: throws std::invalid_argument for predictions that are not finite and
// positive.
[[nodiscard]] ParametricMean PredictedThroughputPrior(
    const trials::Predictions& predictions);

// Peak memory in units of the GPU's capacity from the predicted peak M,
//
//   min(c M + c_0, clip).
//
// c starts at 1. If every candidate is predicted to need more than 0.8 of the
// capacity, c starts at the value at which the smallest prediction is 0.8,
// because a user searches only spaces in which something runs. c is in units of
// a shared scale, as above; c_0 is not.
//
// Shapes: features is [N, 2].
// Units:  the capacity.
// Errors: as above.
[[nodiscard]] ParametricMean PredictedMemoryPrior(
    const trials::Predictions& predictions, double capacity_bytes, double clip);

}  // namespace surrogates
