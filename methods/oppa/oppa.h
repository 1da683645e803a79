// OPPA: constrained Bayesian optimisation with a prior that knows how parallel
// training behaves and with early termination of bad trials.

#ifndef METHODS_OPPA_OPPA_H_
#define METHODS_OPPA_OPPA_H_

#include <cstdint>
#include <memory>

#include "common/error.h"
#include "common/toml_table.h"
#include "methods/confidence.h"
#include "methods/method.h"

namespace methods {

// What the throughput surrogate believes before the first trial.
enum class OppaPrior {
  kNone,      // a constant: plain Bayesian optimisation
  kPrinted,   // the cost model of App. D as printed
  kPhysical,  // the cost model with every size in its place (cost_model.h)
};

// Every part of the method is an option of this one implementation, so an
// ablation is a setting and not a copy: without prior, without early
// termination, and without both, which is VANILLA-BO.
struct OppaOptions {
  OppaPrior prior = OppaPrior::kPhysical;
  bool early_termination = true;
  int q_min = 5;  // steps before a trial may be stopped, >= 1
  // By how much a trial must beat the best: so much, and so much of it.
  double tau_steps_per_s = 0.0;
  double tau_share = 1e-3;
  // Instead, what Theorems F.5 and F.8 ask for: the tau_q of Eq. 56, its s
  // estimated from the trials so far; the beta_i of Eq. 32.
  bool theory_tau = false;
  bool theory_beta = false;
  Assumption theory;  // its q_max is the problem's
  double beta = 1.0;  // of cUCB, >= 0
  // False: beta multiplies E|X - E X| as printed, which is 0.798 of a standard
  // deviation where memory is no concern. True: beta counts deviations.
  bool beta_in_stddevs = false;
  int random_trials = 3;           // at the start, >= 1 (the paper: "a few")
  int failures_before_random = 3;  // in a row, >= 1 (the paper: "too many")
  // A random trial after a failure is the best of so many draws by the model;
  // with 1, as printed, it is blind. Also, with more than 1 the prior chooses
  // when the trials at the start gave no throughput. Needs a prior. >= 1
  int screened_draws = 4;
  // After so many trials without a gain, and every so many again, the model
  // chooses from families that nobody tried (families.h); 0: never. >= 0
  int stagnation_trials = 4;
  // See InactiveKnobs: false is the paper's embedding.
  bool neutral_inert_knobs = true;
  trials::ThroughputOptions throughput;
  // The likelihood without priors on the hyperparameters, Eq. 23 as printed.
  bool fit_as_printed = false;
  int fit_starts = 10;
  // See GaussianProcess::Options: noise that nobody told of.
  bool learn_misfit = true;
  double misfit_scale = 0.5;       // > 0, of throughput
  double misfit_log_stddev = 0.7;  // > 0, of throughput
  // A prior that is knowingly wrong by so much of the best throughput, for the
  // study of App. I.5. >= 0
  double prior_error = 0.0;
  // The sigmoid of Eq. 4 acts on (memory - capacity) / (memory_scale *
  // capacity); the paper gives no scale. > 0
  double memory_scale = 0.025;
  // What an out-of-memory trial observes, in units of the capacity: at least
  // 1. At exactly 1 the sigmoid would call it feasible half the time.
  double out_of_memory_value = 1.1;
  // Standard deviation of a memory observation in units of the capacity: the
  // lambda of Eq. 26.
  double memory_noise = 0.002;
};

// Reads the options; those not given stay as they are in `options`. Keys:
// prior ("none", "printed", "physical"), early_termination, q_min, tau,
// tau_share, beta, beta_in_stddevs, random_trials, failures_before_random,
// screened_draws, stagnation_trials, neutral_inert_knobs, outlier_iqr,
// warmup_steps, variance_of_mean, fit ("map", "printed"), fit_starts,
// learn_misfit, misfit_scale, misfit_log_stddev, memory_scale,
// out_of_memory_value, memory_noise, theory_tau, theory_beta, theory_delta,
// theory_rounds, theory_rkhs_bound, prior_error. Errors: throws InputError with
// the place; q_min > q_max is one.
[[nodiscard]] OppaOptions ReadOppaOptions(const common::TomlTable& table,
                                          const Problem& problem,
                                          OppaOptions options = {});

// Algorithm 3: a few random trials; then fit both surrogates, try the
// candidate with the highest cUCB, and stop its trial when it cannot become
// the best.
//
// Source: OPPA Sec. 4, Apps. D, E, F.1-F.2, G.
[[nodiscard]] std::unique_ptr<Method> MakeOppa(const Problem& problem,
                                               const OppaOptions& options,
                                               std::uint64_t seed);

}  // namespace methods

#endif  // METHODS_OPPA_OPPA_H_
