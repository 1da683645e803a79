// A Gaussian process that is refitted as the history of a search grows.

#pragma once

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
  // Of the memory. Where the target is not a logarithm, those that are at least
  // the limit are among the observations.
  std::vector<surrogates::Bound> bounds = {};
  // A part of each observation that the process does not model, [n]; empty: 0.
  Eigen::VectorXd offset = {};
};

// A Gaussian process around a prior mean.
class FittedProcess {
 public:
  struct Options {
    surrogates::GaussianProcess::Options fit;
    int refit_every_trial_until = 100;  // observations, >= 0
    double refit_growth = 0.1;          // >= 0; 0: refit at every trial
    int most_fitted = 400;              // observations, > 1
    int most_conditioned = 1000;        // observations, > 1
    // Without a shared scale: the centers of the coefficients follow the median
    // of the observations.
    bool centers_follow_median = false;
  };

  // `space` must outlive this object.
  FittedProcess(const surrogates::EncodedSpace& space,
                surrogates::ParametricMean prior, const Options& options);

  // From refit_every_trial_until observations on, hyperparameters are refitted
  // only when the observations, bounds included, have grown by refit_growth;
  // those in between are appended, or conditioned on where there are bounds.
  // A fit takes O(n^3) time for each of its hundreds of evaluations, and a
  // prediction O(n^2), so that a fit is to at most most_fitted observations,
  // evenly spaced in the history, bounds among them as values, and the process
  // is conditioned on at most most_conditioned: on the largest, half of them,
  // which are the best or leave the least memory free, and on others, evenly
  // spaced, besides what is appended later.
  surrogates::FitSummary Fit(const FitInput& input);

  [[nodiscard]] const surrogates::GaussianProcess& process() const {
    return process_;
  }
  [[nodiscard]] const surrogates::ParametricMean& prior() const {
    return prior_;
  }

 private:
  void SetPriors(const FitInput& input);
  [[nodiscard]] surrogates::FitSummary FitToSome(
      const surrogates::Observations& observations);
  [[nodiscard]] surrogates::FitSummary Condition(
      const surrogates::Observations& observations);
  // Whether they are known_ and more.
  [[nodiscard]] bool Extends(
      const surrogates::Observations& observations) const;

  surrogates::ParametricMean prior_;
  Options options_;
  surrogates::GaussianProcess process_;
  // The last observations, in the order of the history, and their number when
  // hyperparameters were fitted.
  surrogates::Observations known_;
  int fitted_ = 0;
};

}  // namespace methods
