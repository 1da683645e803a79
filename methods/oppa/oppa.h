// OPPA: constrained Bayesian optimization with a prior derived from the costs
// of parallel training, and with early termination of bad trials.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "methods/acquisition.h"
#include "methods/confidence.h"
#include "methods/method.h"
#include "methods/options.h"
#include "methods/sampling/random.h"
#include "methods/surrogate_pair.h"

namespace methods {

// Every part of the method is an option of this one implementation, so
// ablations, OPPA-PAPER, OPPA-SIM and VANILLA-BO are settings and not copies.
// OptionsOf documents each option.
struct OppaOptions {
  bool early_termination = true;
  int q_min = 5;     // at most the problem's q_max
  double tau = 0.0;  // a value, like tau_share times the best one
  double tau_share = 1e-3;
  bool theory_tau = false;
  bool theory_beta = false;
  Assumption theory;  // its q_max is the problem's
  double beta = 3.0;
  int random_trials = 1;
  DrawLaw draw = DrawLaw::kCell;
  bool prior_start = true;
  int failures_before_random = 3;
  // The acquisition function, and the period at which the other one chooses
  // (0: never).
  Acquisition acquisition = Acquisition::kConstrainedUcb;
  int alternate_every = 2;
  trials::ThroughputOptions throughput;
  SurrogatePair::Options surrogates;
};

[[nodiscard]] std::vector<Option> OptionsOf(OppaOptions& options);
[[nodiscard]] std::optional<std::string> PredictionsOf(
    const OppaOptions& options);

// Algorithm 3: a few random trials; then fit both surrogates, try the candidate
// with the highest value of the acquisition function, and stop its trial when
// it cannot become the best.
//
// Source: OPPA Sec. 4, Apps. D, E, F.1-F.2, G.
// Note: the paper uses cUCB alone. By default, every second trial is chosen by
// expected improvement (docs/decisions/0014-leave-a-family.md).
[[nodiscard]] std::unique_ptr<Method> MakeOppa(const Problem& problem,
                                               const OppaOptions& options,
                                               std::uint64_t seed);

}  // namespace methods
