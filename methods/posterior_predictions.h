// Predictions of every candidate that a search of another job left behind.

#pragma once

#include <vector>

#include "methods/method.h"
#include "trials/predictions.h"
#include "trials/trial.h"

namespace methods {

// The posterior means of OPPA's two processes, with its default priors, after
// these trials of the space: throughputs as step times, and peaks, of which
// the smallest is half of what the priors alone expect.
// Their common scale may be that of another job.
// Precondition: at least one trial has a throughput.
[[nodiscard]] trials::Predictions PosteriorPredictions(
    const Problem& problem, const std::vector<trials::Trial>& trials);

}  // namespace methods
