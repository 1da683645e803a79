// The problems on which suggestions are timed.

#pragma once

#include "surrogates/encoding.h"
#include "surrogates/parametric_mean.h"
#include "surrogates/surrogate.h"

namespace benchmarks {

inline constexpr int kDimensions = 12;
inline constexpr int kMaxCandidates = 10'000'000;

// `candidates` different points of a grid with the levels of a large search
// space of parallelism configurations, scattered over it.
// Errors: throws std::invalid_argument outside [1, kMaxCandidates].
[[nodiscard]] surrogates::EncodedSpace MakeSpace(int candidates);

// A mean of up to 24 coefficients over the space, each term a power of one
// dimension (or of 1 minus it), so that no two are the same: the inverse link
// with dimensions and the linear one `downwards` favor different candidates, as
// speed and memory do.
[[nodiscard]] surrogates::ParametricMean MakeMean(
    const surrogates::EncodedSpace& space, int terms,
    surrogates::ParametricMean::Link link, bool downwards = false);

// `count` noisy values (1% to 5% over sqrt(5), reported) of a mean with random
// coefficients times a smooth deviation of relative size `ripple`, at random
// candidates among the first ten thousand.
[[nodiscard]] surrogates::Observations Observe(
    const surrogates::EncodedSpace& space,
    const surrogates::ParametricMean& mean, int count, double ripple);

}  // namespace benchmarks
