// Observations of which only a bound is known.

#pragma once

#include <vector>

#include "surrogates/gp/gaussian_process.h"
#include "surrogates/surrogate.h"

namespace surrogates {

// `measured`, and for every bound, whose limit is 0, the normal observation
// that leaves the same mean and variance as the bound itself: with what
// `process` predicts from those before it, f ~ N(m, v),
//
//   p(bound | f) = e + (1 - e) [f beyond 0],
//
// N(y; f, w) has the moments of p(bound | f) N(f; m, v); where these are wider
// than w = 10 v leaves, w is that, and y leaves the mean. e, the share of
// trials that failed for another reason than their memory (or ran by a wrong
// report), lets a failure of what is surely predicted to fit move its
// neighbours a little instead of everything. The next failure of the kind is
// then less of a surprise, so the bounds are taken one after the other.
//
// Precondition: `process` is conditioned on `measured`. Afterwards it is
// conditioned on the result.
// Source: assumed density filtering, Minka (2001), "Expectation propagation for
// approximate Bayesian inference", Sec. 2; a second pass over the bounds
// changed no search (docs/decisions/0024-residual-process.md).
[[nodiscard]] Observations WithBounds(GaussianProcess& process,
                                      Observations measured,
                                      const std::vector<Bound>& bounds);

}  // namespace surrogates
