// A Gaussian process with a parametric prior mean.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <Eigen/Core>

#include "surrogates/encoding.h"
#include "surrogates/gp/likelihood.h"
#include "surrogates/gp/posterior.h"
#include "surrogates/parametric_mean.h"
#include "surrogates/surrogate.h"

namespace surrogates {

// The target as a prior mean plus a zero-mean Gaussian process over the
// embedding of configurations, with the noise of every observation known,
//
//   f ~ GP(m(.; c), k(e(.), e(.); l, s)),   y_i = f(H_i) + N(0, noise_i),
//
// where l, s and the coefficients c are learned together: the maximum of
// their posterior (or, `as_printed`, of the marginal likelihood), found by
// a search in a box from several starts. docs/decisions/0002-gp-fit.md has
// the reasons for the priors, the starts and the treatment of small noise.
//
// Targets are never centered: throughput and memory are positive, X = 0 means
// infeasible to the acquisition function, and even a constant mean is learned
// as a positive c. They keep their own units; the data's spread only sets the
// unit of the prior on s.
//
// Source: OPPA Eqs. 2-3, 22-27.
// Note: Eq. 22 lacks the square root; the kernel has it.
class GaussianProcess {
 public:
  struct Options {
    // The printed fit (Eq. 23): no priors on any hyperparameter, bounds only.
    // Over-confident with few observations.
    bool as_printed = false;
    // Integrate over the mean's coefficients in the fit and in predictions
    // (linearized around their optimum) instead of assuming that the optimum is
    // exact. Off when as_printed.
    bool integrate_coefficients = true;
    // The prior mean alone, as a cost model: no kernel, f(H) = m(H; c) plus an
    // independent deviation of learned variance at every configuration.
    bool mean_only = false;
    // Learn the nugget w^2, an independent variance of single configurations
    // that neither mean nor kernel explains. Off when as_printed or mean_only.
    bool learn_nugget = true;
    NuggetPrior nugget;  // in units of the target's spread
    // The error of the mean that all members of a family share, in units of the
    // largest value; scale 0: none. Off when as_printed or mean_only.
    FamilyPrior family;
    int starts = 10;                     // >= 1, excluding the warm start
    bool warm_start = true;              // also start from the last optimum
    std::uint64_t seed = 0;              // of the starting points
    double relative_noise_floor = 1e-6;  // >= 0, in units of s^2
    // Spread of the target, the unit of the priors on s and w; 0: estimated
    // from the data.
    double target_scale = 0.0;  // >= 0
    // The prior of s: log s^2 is normal with this deviation around log
    // target_scale^2. > 0
    double signal_log_stddev = 1.0;
    // The prior of length scales; nothing: KernelPriors::DimensionScaled.
    std::optional<LogNormalPrior> length_scale;
    double min_length_scale = 0.025;  // > 0, of the unit cube
    double max_length_scale = 100.0;  // > min_length_scale
    // Bounds of the mean's coefficients: this many deviations of their priors.
    double coefficient_reach = 6.0;  // > 0
    int threads = 1;                 // >= 1; results do not depend on it
  };

  // `space` must outlive this object. features of the mean has a row per
  // candidate of the space.
  // Errors: throws std::invalid_argument for shapes that do not match and for
  // options outside their range.
  GaussianProcess(const EncodedSpace& space, ParametricMean mean,
                  const Options& options);

  // Replaces the prior centers of the mean's coefficients, for guesses that
  // come from the first data. The next Fit uses them. Shapes: [m]. Errors:
  // throws std::invalid_argument for another size or for values that are not
  // finite.
  void SetLogCenters(const Eigen::VectorXd& log_centers);

  // Parameters of the summary: length_scale[<dimension>], signal_stddev,
  // prior[<coefficient>], where they are integrated prior_log_stddev[<...>],
  // the standard deviation of its logarithm, noise_stddev (root mean square,
  // after the floor) and target_scale; all but length scales in physical units.
  // Errors: throws std::invalid_argument for a candidate outside the space,
  // for values that are not finite and for negative noise.
  FitSummary Fit(const Observations& observations);

  // Conditions on observations under given hyperparameters, without a fit. The
  // summary has the parameters of Fit.
  FitSummary Condition(const Observations& observations,
                       const Hyperparameters& hyperparameters);

  // Conditions on one more observation under the current hyperparameters in
  // O(n^2); Fit and Condition take O(n^3). log_posterior() is then that of all
  // observations with the priors of the last Fit or Condition. The summary has
  // the parameters of Fit.
  // Errors: as Fit.
  FitSummary Append(int candidate, double value, double noise_variance);

  // Predicts every candidate; `prediction` is resized. From the second call on
  // it allocates only what starting threads takes where options.threads > 1.
  void Predict(Prediction& prediction) const;

  // Predict's numbers, to the last bit, for some candidates in the given order.
  // Shapes: prediction is [candidates.size()].
  void PredictSome(std::span<const int> candidates,
                   const PredictionView& prediction) const;

  // The posterior covariance, without the nugget, at distinct candidates,
  //
  //   k(X, X) - k_*^T A^-1 k_* + D^T M^-1 D,  D = J_*^T - J^T A^-1 k_*,
  //
  // in the symbols of Posterior. Its diagonal and the nugget w^2, which is
  // independent, add up to the variance of Predict, up to rounding.
  // O(k^2 (d + n + m)). Shapes: [k, k].
  // Source: Rasmussen & Williams 2006, Eqs. 2.24 and 2.42.
  [[nodiscard]] Eigen::MatrixXd JointCovariance(
      const std::vector<int>& candidates) const;

  // Predicts the measurement of each observation from the others under the
  // current hyperparameters, noise and nugget included, in the order of
  // observations(). Shapes: [n]; empty when mean_only.
  // Source: Rasmussen & Williams 2006, Eqs. 5.10-5.12, with the covariance that
  // the coefficients add.
  [[nodiscard]] Prediction LeaveOneOut() const;

  [[nodiscard]] const Hyperparameters& hyperparameters() const {
    return posterior_.hyperparameters();
  }

  // log p(observations | c_j = 1) - log p(observations | c_j = 0) for a
  // coefficient of a kLogLinear mean that is integrated over.
  // Source: Dickey (1971), "The weighted likelihood ratio, linear hypotheses on
  // normal location parameters".
  [[nodiscard]] double LogOddsOfOne(Eigen::Index j) const;

  // Whether the target is a logarithm.
  [[nodiscard]] bool logarithmic() const { return mean_.logarithmic(); }

  // Log likelihood (plus log priors unless as_printed) of the last Fit or
  // Condition, up to a constant.
  [[nodiscard]] double log_posterior() const {
    return posterior_.log_density();
  }

  // The observations that it is conditioned on, sorted.
  [[nodiscard]] const Observations& observations() const {
    return observations_;
  }

  // Information gain of the observations in nats; see
  // Likelihood::InformationGain.
  [[nodiscard]] double information_gain() const {
    return posterior_.information_gain();
  }

 private:
  void Validate(const Observations& observations) const;
  [[nodiscard]] double TargetScale(const Observations& observations,
                                   const Hyperparameters& modes) const;
  [[nodiscard]] double Largest(const Observations& observations,
                               const Hyperparameters& modes) const;
  [[nodiscard]] KernelPriors Priors(double target_scale,
                                    double largest = 1.0) const;
  [[nodiscard]] Likelihood MakeLikelihood(const Observations& observations,
                                          const KernelPriors& priors) const;
  [[nodiscard]] FitSummary Summarize() const;
  void SetPosterior(const Hyperparameters& hyperparameters,
                    Likelihood& likelihood);

  const EncodedSpace* space_;
  ParametricMean mean_;
  Options options_;
  Likelihood::Options parts_;  // which parts of the model options_ ask for

  bool fitted_ = false;  // the posterior's hyperparameters are an optimum
  double target_scale_ = 1.0;
  double largest_ = 1.0;  // value, the unit of the deviation of families
  Observations observations_;
  Posterior posterior_;
};

}  // namespace surrogates
