// A deliberate error of the prior mean, for studies of wrong priors.

#pragma once

#include <cstdint>

#include <Eigen/Core>

#include "surrogates/encoding.h"

namespace surrogates {

// A wave through the space of configurations,
//
//   g(H) = cos(2 pi w . e(H) + phase) / max |cos(...)|,   |w| = 1,
//
// with direction w and phase drawn from the seed. It is as smooth as a real
// effect, so that a surrogate cannot mistake it for noise, and no coefficient
// of the cost model has its form, so that none can absorb it.
//
// Source: OPPA App. I.5, which does not specify the perturbation.
// Shapes: [N], in [-1, 1].
[[nodiscard]] Eigen::VectorXd Misspecification(const EncodedSpace& space,
                                               std::uint64_t seed);

}  // namespace surrogates
