// Predictions by the trials of earlier jobs.

#pragma once

#include <optional>
#include <vector>

#include "harness/prediction_source.h"
#include "harness/predictions/prediction_settings.h"
#include "methods/method.h"
#include "trials/trial.h"

namespace harness {

// The posterior of OPPA after the trials below PredictionSettings::from, on any
// number of GPUs, with any batch and of any model. A trial counts for the
// candidate that splits layers, tensors and sequences alike and has as many
// sequences in a microbatch; its data-parallel size follows from the number of
// GPUs. A GPU has the throughput of the earlier one; only the order matters to
// a search, which learns the scale. Trials without a counterpart, and those
// that ran out of a smaller memory, are left out; of several trials of a
// candidate the first one counts.
//
// `tokens_per_step`: of the problem; 0: unknown, and the same as before. The
// space and the workload of the problem must outlive the result.
// `own`: the job of the problem, which trials must be of where their run does
// not say what its own job was to take (RunInfo::computation). Null: unknown.
// Errors: throws InputError for a folder without trials, for records that
// cannot be read, if no trial that ran has a counterpart, and as RefuseForeign.
[[nodiscard]] PredictingModel EarlierJobs(const PredictionSettings& settings,
                                          const methods::Problem& problem,
                                          double tokens_per_step,
                                          const PredictedJob* own);

// How many times the computation that the simulator predicts for the job its
// trials take; nothing where it does not predict their GPUs, or runs them.
[[nodiscard]] std::optional<double> ComputationFactor(
    const std::vector<trials::Trial>& trials, const PredictedJob* job);

}  // namespace harness
