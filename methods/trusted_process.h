// A surrogate that learns how far to trust the predictions behind its prior.

#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <Eigen/Core>

#include "surrogates/encoding.h"
#include "surrogates/gp/gaussian_process.h"
#include "surrogates/parametric_mean.h"
#include "surrogates/surrogate.h"

namespace methods {

// The observations of one target, throughput or memory.
struct FitInput {
  surrogates::Observations observations;
  // Candidates whose value is only known to be at most 1; see
  // surrogates::MatchSharedScale.
  std::vector<int> at_most_one = {};
  // A part of each observation that the process does not model, [n]; empty: 0.
  Eigen::VectorXd offset = {};
};

// A Gaussian process around a prior mean that is refitted as the history grows.
class FittedProcess {
 public:
  struct Options {
    surrogates::GaussianProcess::Options fit;
    int refit_every_trial_until = 100;  // observations, >= 0
    double refit_growth = 0.1;          // >= 0; 0: refit at every trial
    // Without a shared scale: the centers of the coefficients follow the median
    // of the observations.
    bool centers_follow_median = false;
    // Expected error of the prior mean relative to the largest observation, the
    // unit of the kernel's priors; 0: fit.target_scale. >= 0
    double relative_error = 0.0;
  };

  // `space` must outlive this object.
  FittedProcess(const surrogates::EncodedSpace& space,
                surrogates::ParametricMean prior, const Options& options);

  // From refit_every_trial_until observations on, hyperparameters are refitted
  // only when the observations have grown by refit_growth; those in between are
  // appended.
  surrogates::FitSummary Fit(const FitInput& input);

  // The logarithm of how much more likely the observations are if the prior
  // mean predicts them than if they scatter around their median,
  //
  //   (n - 1) / n sum_i [log t(log y_i / m_i; 0.15) - log t(log y_i / med;
  //   0.6)]
  //
  // where m is the mean at typical coefficients with the scale that matches all
  // observations, and t(.; s) is Student's t with 4 degrees of freedom and the
  // scale s, so that a single outlier does not decide. Observations that are
  // not positive are ignored. Precondition: the prior has a shared scale.
  // `measured`: Measured(all observations).
  [[nodiscard]] double LogRecord(const FitInput& measured) const;

  // The prior mean of every candidate at the fitted coefficients, without its
  // clip: an order even where all candidates are predicted not to fit. [N]
  // Precondition: its link is not the inverse.
  [[nodiscard]] Eigen::VectorXd UnclippedMean() const;
  // What the clip takes away from it, >= 0. [N]
  [[nodiscard]] Eigen::VectorXd MeanBeyondClip() const {
    return (UnclippedMean().array() - prior_.clip).max(0.0);
  }

  // The input without the observations at the clip of the prior, of which only
  // a lower bound is known: trials that ran out of memory.
  [[nodiscard]] FitInput Measured(const FitInput& input) const;

  // The evidence of the observations at the clip for the prior, <= 0,
  //
  //   sum_i min(0, log(max(P_i, 0.05) / 0.25)),
  //
  // where P_i is the probability that observation i exceeds 1 by its value at
  // typical coefficients, with the scale that matches the measured ones
  // (trials::FitProbability): a quarter of random trials fail.
  [[nodiscard]] double FailureEvidence(const FitInput& input,
                                       const FitInput& measured) const;

  [[nodiscard]] const surrogates::GaussianProcess& process() const {
    return process_;
  }

 private:
  [[nodiscard]] Eigen::VectorXd MatchedCenters(const FitInput& input) const;
  void SetPriors(const FitInput& input);

  surrogates::ParametricMean prior_;
  Options options_;
  surrogates::GaussianProcess process_;
  // The last observations, in the order of the history, and their number when
  // hyperparameters were fitted.
  surrogates::Observations known_;
  int fitted_ = 0;
};

// The process P with predictions as its prior and a process F without, and the
// probability that P is the better one,
//
//   log p / (1 - p) = log p_0 / (1 - p_0) + E_P - E_F + 1/4 LogRecord(P)
//                     + FailureEvidence(P),
//
// where E is the log posterior of a fit: the evidence of all observations with
// the coefficients integrated out, once two of them are measured values.
// LogRecord compares bare predictions with the observations. It has a weight of
// a quarter, because errors of similar configurations are alike. A candidate
// that is surely predicted to fit and runs out of memory counts 5 to 1 against
// P, and one that was a gamble next to nothing. Once p < 1/50 or p > 49/50, F
// and P are compared again only when the observations have grown by half. Until
// then only the more probable process is fitted, so accurate predictions cost
// no second fit.
//
// Source: own; docs/decisions/0013-predictions-as-prior.md.
class TrustedProcess {
 public:
  // p_0, the probability before the first observation.
  static constexpr double kPriorTrust = 0.6;

  using MakeProcess = std::function<std::unique_ptr<FittedProcess>()>;

  // P is `preferred`; `make_fallback` makes F when it is first needed. If
  // `make_fallback` is empty, there is no F and p is 1.
  TrustedProcess(std::unique_ptr<FittedProcess> preferred,
                 MakeProcess make_fallback);

  // Fits, then uses P until the next call if p is at least `threshold`, and F
  // otherwise. Once p is settled, the threshold is 1/2. Returns the summary of
  // the process that is used; with a fallback it has the parameters trust (p)
  // and uses_predictions (0 or 1).
  surrogates::FitSummary Fit(const FitInput& input, double threshold = 0.5);

  // The process that the last Fit chose.
  [[nodiscard]] const FittedProcess& chosen() const {
    return uses_fallback_ ? *fallback_ : *preferred_;
  }
  [[nodiscard]] const surrogates::GaussianProcess& process() const {
    return chosen().process();
  }
  // It and, if the last Fit compared both and p is not settled, the other one.
  [[nodiscard]] std::vector<const FittedProcess*> plausible() const;

 private:
  [[nodiscard]] bool Settled(int observations) const;
  [[nodiscard]] surrogates::FitSummary WithTrust(
      surrogates::FitSummary summary) const;
  surrogates::FitSummary FitChosen(const FitInput& input);

  std::unique_ptr<FittedProcess> preferred_;
  std::unique_ptr<FittedProcess> fallback_;  // null until it is needed
  MakeProcess make_fallback_;
  double trust_;
  int compared_ = 0;  // observations of the last comparison
  bool uses_fallback_ = false;
  bool undecided_ = false;
};

}  // namespace methods
