// An estimate of how much a search may still gain, from its two surrogates.

#pragma once

#include <optional>

#include <Eigen/Core>

#include "methods/history.h"
#include "surrogates/gp/gaussian_process.h"
#include "trials/remaining.h"

namespace methods {

// With r_b the value of the incumbent, the best completed trial, known to the
// variance of the mean of its steps, and for every untried candidate value
// r ~ N(m, v) and memory u ~ N(m_u, v_u) in units of the capacity,
//
//   expected gain   max over untried candidates of
//                   P(u <= 1) E[(r - r_b)^+] / r_b,
//   P(within x)     sigmoid(logit(p) / 2),
//                   p = P(r_b >= (1 - x) max(r_b, r_i of every i with u_i <= 1
//                                            and of every tried i)).
//
// and p_found_5 as P(within 0.05) with the highest tried r_i in place of r_b.
// p is a share of kSamples joint posterior samples, with half a sample added to
// either side. Samples are joint over the kJoint untried candidates with
// the highest P(u <= 1) P(r > r_b), without those below 1e-4: siblings share
// most of their uncertainty, and with independent marginals P(within x) is far
// too low (docs/decisions/0015-stopping.md). They exclude the nugget, because
// the maximum of many independent deviations would grow with the number of
// siblings. A tried candidate has the mean of its steps and the variance of
// History::VarianceOfRun. p itself is too extreme in both directions, because
// the posterior assumes that hyperparameters and the form of the prior are
// certain. The square root of the odds corrects for this. With kSamples,
// P(within x) is at most 0.978.
//
// If there are more than kScreened untried candidates, memory is predicted only
// for those with the highest P(r > r_b). The result is deterministic and does
// not depend on the number of threads.
//
// `prediction` is that of `throughput` for every candidate. `doubt` multiplies
// v: how much more than predicted the last trials scattered. Either process may
// be one of logarithms; then r and u are exponentials, and m and v those of
// Prediction::Exponential. Returns nothing before the first completed trial.
// The cost is O(N + n k^2 + k^3 + k^2 s) for N candidates, n trials, k = kJoint
// and s = kSamples. Source: expected improvement: Jones, Schonlau & Welch 1998,
// Eq. 15; the probability is that of Wilson 2024, "Stopping Bayesian
// optimization with probabilistic regret bounds", with relative regret.
inline constexpr int kScreened = 8192;
inline constexpr int kJoint = 128;
inline constexpr int kSamples = 1024;

// The highest value of P(within x).
[[nodiscard]] double HighestProbability();

[[nodiscard]] std::optional<trials::Remaining> EstimateRemaining(
    const History& history, const surrogates::Prediction& prediction,
    const surrogates::GaussianProcess& throughput,
    const surrogates::GaussianProcess& memory, double doubt = 1.0);

}  // namespace methods
