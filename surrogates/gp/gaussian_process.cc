#include "surrogates/gp/gaussian_process.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "common/ranges.h"
#include "surrogates/gp/multistart.h"

namespace surrogates {
namespace {

// Bounds of the fit that are no options: the standard deviations of signal and
// nugget relative to the target's spread.
constexpr double kMinSignal = 1e-4;
constexpr double kMaxSignal = 1e2;
constexpr double kMinNugget = 1e-4;
constexpr double kMinFamily = 1e-4;  // in units of the largest value
constexpr double kMaxFamily = 1e1;

void Require(bool condition, std::string_view what) {
  if (!condition) {
    throw std::invalid_argument(fmt::format("GaussianProcess: {}", what));
  }
}

// Sorted, so that results are the same to the last bit for any order of the
// same observations.
Observations Sorted(const Observations& observations) {
  std::vector<int> order = common::Indices(observations.candidate.size());
  const auto key = [&](int i) {
    return std::tuple(observations.candidate[i], observations.value[i],
                      observations.noise_variance[i]);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](int i, int j) { return key(i) < key(j); });
  Observations sorted;
  sorted.value = observations.value(order);
  sorted.noise_variance = observations.noise_variance(order);
  for (const int i : order) {
    sorted.candidate.push_back(observations.candidate[i]);
  }
  return sorted;
}

HyperparameterBox BoxOf(const ParametricMean& mean,
                        const GaussianProcess::Options& options,
                        const Likelihood::Options& parts, int dimensions,
                        double target_scale, double largest) {
  const Eigen::Index size = dimensions + 1 + mean.size() +
                            (parts.nugget ? 1 : 0) + (parts.family ? 1 : 0);
  HyperparameterBox box{Eigen::VectorXd(size), Eigen::VectorXd(size)};
  box.lower.head(dimensions).setConstant(std::log(options.min_length_scale));
  box.upper.head(dimensions).setConstant(std::log(options.max_length_scale));
  box.lower[dimensions] = 2.0 * std::log(kMinSignal * target_scale);
  box.upper[dimensions] = 2.0 * std::log(kMaxSignal * target_scale);
  Eigen::Index i = dimensions + 1;
  for (const ParametricMean::Coefficient& coefficient : mean.coefficients) {
    const double reach = options.coefficient_reach * coefficient.log_stddev;
    box.lower[i] = coefficient.log_center - reach;
    box.upper[i] = coefficient.log_center + reach;
    ++i;
  }
  if (parts.nugget) {
    box.lower[i] = 2.0 * std::log(kMinNugget * target_scale);
    box.upper[i] = 2.0 * std::log(kMaxSignal * target_scale);
    ++i;
  }
  if (parts.family) {
    box.lower[i] = 2.0 * std::log(kMinFamily * largest);
    box.upper[i] = 2.0 * std::log(kMaxFamily * largest);
  }
  return box;
}

Likelihood::Options PartsOf(const GaussianProcess::Options& options) {
  const bool printed = options.as_printed;
  const bool kernel = !options.mean_only;
  return {.iid = !kernel,
          .relative_noise_floor = options.relative_noise_floor,
          .with_priors = !printed,
          .integrate_coefficients = options.integrate_coefficients && !printed,
          .nugget = options.learn_nugget && kernel && !printed,
          .family = options.family.scale > 0.0 && kernel && !printed,
          .family_correlation = options.family.correlation};
}

}  // namespace

GaussianProcess::GaussianProcess(const EncodedSpace& space, ParametricMean mean,
                                 const Options& options)
    : space_(&space),
      mean_(std::move(mean)),
      options_(options),
      parts_(PartsOf(options)),
      posterior_(parts_) {
  Require(mean_.features.rows() == space.size(),
          "the mean needs one row of features per candidate");
  Require(mean_.features.cols() == mean_.size(),
          "the mean needs one column of features per coefficient");
  for (const ParametricMean::Coefficient& coefficient : mean_.coefficients) {
    Require(
        coefficient.log_stddev > 0.0 && std::isfinite(coefficient.log_center),
        "coefficients need a finite log_center and log_stddev > 0");
  }
  Require(options.starts >= 1, "starts must be at least 1");
  Require(options.threads >= 1, "threads must be at least 1");
  Require(options.relative_noise_floor >= 0.0,
          "relative_noise_floor must not be negative");
  Require(options.target_scale >= 0.0, "target_scale must not be negative");
  Require(options.min_length_scale > 0.0 &&
              options.min_length_scale < options.max_length_scale,
          "length scales need 0 < min < max");
  Require(options.coefficient_reach > 0.0,
          "coefficient_reach must be positive");
  Fit({});  // the prior alone, so that Predict is defined from the start
}

void GaussianProcess::Validate(const Observations& observations) const {
  const Eigen::Index n = observations.size();
  Require(
      observations.value.size() == n && observations.noise_variance.size() == n,
      "observations need one value and one noise variance each");
  for (const int candidate : observations.candidate) {
    Require(candidate >= 0 && candidate < space_->size(),
            "an observation names a candidate outside the space");
  }
  Require(
      observations.value.allFinite() && observations.noise_variance.allFinite(),
      "values and noise variances must be finite");
  Require(n == 0 || observations.noise_variance.minCoeff() >= 0.0,
          "noise variances must not be negative");
}

double GaussianProcess::TargetScale(const Observations& observations,
                                    const Hyperparameters& modes) const {
  if (options_.target_scale > 0.0) {
    return options_.target_scale;
  }
  return TargetSpread(observations.size() > 0
                          ? observations.value
                          : mean_.EvaluateAll(modes.log_coefficients));
}

KernelPriors GaussianProcess::Priors(double target_scale,
                                     double largest) const {
  KernelPriors priors = KernelPriors::DimensionScaled(
      space_->dimension_count(), target_scale, options_.nugget);
  priors.signal_variance.log_stddev = options_.signal_log_stddev;
  if (options_.length_scale) {
    priors.length_scale = *options_.length_scale;
  }
  if (parts_.family) {
    priors.family_variance = {
        .log_center = 2.0 * std::log(options_.family.scale * largest),
        .log_stddev = options_.family.log_stddev,
        .density_in_x = false};
  }
  return priors;
}

double GaussianProcess::Largest(const Observations& observations,
                                const Hyperparameters& modes) const {
  if (mean_.logarithmic()) {
    return 1.0;
  }
  const double largest =
      observations.size() > 0
          ? observations.value.maxCoeff()
          : mean_.EvaluateAll(modes.log_coefficients).maxCoeff();
  return largest > 0.0 ? largest : 1.0;
}

Likelihood GaussianProcess::MakeLikelihood(const Observations& observations,
                                           const KernelPriors& priors) const {
  return {*space_, mean_, observations, priors, parts_};
}

void GaussianProcess::SetLogCenters(const Eigen::VectorXd& log_centers) {
  Require(log_centers.size() == mean_.size() && log_centers.allFinite(),
          "SetLogCenters needs one finite value per coefficient");
  for (Eigen::Index j = 0; j < log_centers.size(); ++j) {
    mean_.coefficients[j].log_center = log_centers[j];
  }
}

FitSummary GaussianProcess::Fit(const Observations& unsorted) {
  Validate(unsorted);
  observations_ = Sorted(unsorted);
  const bool empty = observations_.size() == 0;
  const int dimensions = options_.mean_only ? 0 : space_->dimension_count();
  const Hyperparameters modes = PriorModes(mean_, Priors(1.0), dimensions);
  target_scale_ = TargetScale(observations_, modes);
  largest_ = Largest(observations_, modes);
  const KernelPriors priors = Priors(target_scale_, largest_);
  std::vector<Hyperparameters> starts = StartingPoints(
      mean_, priors, observations_, dimensions, options_.starts, options_.seed);
  if (options_.warm_start && fitted_) {
    starts.push_back(hyperparameters());
  }
  Likelihood likelihood = MakeLikelihood(observations_, priors);
  HyperparameterFit fit{.best = starts.front(), .converged = true};
  if (!empty) {
    FitOptions search{.threads = options_.threads};
    if (options_.as_printed) {
      // Without priors, the starts end far apart: every one runs to
      // convergence. The clip of the memory prior and the wide box make L-BFGS
      // stop early (docs/decisions/0002-gp-fit.md).
      search.minimizer = Minimizer::kSlsqp;
      search.screening_evaluations = search.max_evaluations;
    }
    fit = MaximiseOverStarts(
        likelihood, starts,
        BoxOf(mean_, options_, parts_, dimensions, target_scale_, largest_),
        search);
  }
  fitted_ = !empty;
  SetPosterior(fit.best, likelihood);
  FitSummary summary = Summarize();
  summary.evaluations = fit.evaluations;
  summary.starts = empty ? 0 : static_cast<int>(starts.size());
  summary.jitter_retries = fit.jitter_retries;
  summary.converged = fit.converged;
  return summary;
}

FitSummary GaussianProcess::Condition(const Observations& unsorted,
                                      const Hyperparameters& hyperparameters) {
  Validate(unsorted);
  Require(hyperparameters.log_length_scales.size() ==
                  (options_.mean_only ? 0 : space_->dimension_count()) &&
              hyperparameters.log_coefficients.size() == mean_.size(),
          "hyperparameters do not fit the space and the mean");
  observations_ = Sorted(unsorted);
  target_scale_ = TargetScale(observations_, hyperparameters);
  largest_ = Largest(observations_, hyperparameters);
  Likelihood likelihood =
      MakeLikelihood(observations_, Priors(target_scale_, largest_));
  fitted_ = true;
  SetPosterior(hyperparameters, likelihood);
  return Summarize();
}

FitSummary GaussianProcess::Append(int candidate, double value,
                                   double noise_variance) {
  Observations one;
  one.candidate = {candidate};
  one.value.setConstant(1, value);
  one.noise_variance.setConstant(1, noise_variance);
  Validate(one);
  const Eigen::Index n = observations_.size();
  observations_.candidate.push_back(candidate);
  observations_.value.conservativeResize(n + 1);
  observations_.value[n] = value;
  observations_.noise_variance.conservativeResize(n + 1);
  observations_.noise_variance[n] = noise_variance;
  const double floor = options_.relative_noise_floor *
                       std::exp(hyperparameters().log_signal_variance);
  if (options_.mean_only ||
      !posterior_.Append(*space_, mean_, observations_,
                         std::max(noise_variance, floor))) {
    Likelihood likelihood =
        MakeLikelihood(observations_, Priors(target_scale_, largest_));
    SetPosterior(hyperparameters(), likelihood);
  }
  return Summarize();
}

void GaussianProcess::SetPosterior(const Hyperparameters& hyperparameters,
                                   Likelihood& likelihood) {
  Require(
      posterior_.Condition(*space_, observations_, hyperparameters, likelihood),
      "the covariance of the observations cannot be factorised");
}

FitSummary GaussianProcess::Summarize() const {
  FitSummary summary;
  summary.log_posterior = log_posterior();
  const auto add = [&](std::string name, double value) {
    summary.parameters.push_back({std::move(name), value});
  };
  const Hyperparameters& h = hyperparameters();
  for (Eigen::Index k = 0; k < h.log_length_scales.size(); ++k) {
    add(fmt::format("length_scale[{}]", space_->dimensions[k]),
        std::exp(h.log_length_scales[k]));
  }
  const double signal_variance = std::exp(h.log_signal_variance);
  // The records' name of the nugget is misfit_stddev.
  add(options_.mean_only ? "misfit_stddev" : "signal_stddev",
      std::sqrt(signal_variance));
  if (parts_.nugget) {
    add("misfit_stddev", std::exp(0.5 * h.log_nugget_variance));
  }
  if (parts_.family) {
    add("family_stddev", std::exp(0.5 * h.log_family_variance));
  }
  for (Eigen::Index j = 0; j < mean_.size(); ++j) {
    add(fmt::format("prior[{}]", mean_.coefficients[j].name),
        mean_.logarithmic() ? h.log_coefficients[j]
                            : std::exp(h.log_coefficients[j]));
  }
  for (Eigen::Index j = 0; parts_.integrate_coefficients && j < mean_.size();
       ++j) {
    add(fmt::format("prior_log_stddev[{}]", mean_.coefficients[j].name),
        posterior_.LogCoefficientStddev(j));
  }
  if (observations_.size() > 0) {
    const double floor = options_.relative_noise_floor * signal_variance;
    add("noise_stddev",
        std::sqrt(observations_.noise_variance.cwiseMax(floor).mean()));
  }
  add("target_scale", target_scale_);
  return summary;
}

void GaussianProcess::Predict(Prediction& prediction) const {
  const int size = space_->size();
  prediction.Resize(size);
  posterior_.Predict(*space_, mean_, size, nullptr, options_.threads,
                     prediction.Head(size));
}

void GaussianProcess::PredictSome(std::span<const int> candidates,
                                  const PredictionView& prediction) const {
  posterior_.Predict(*space_, mean_, static_cast<int>(candidates.size()),
                     candidates.data(), options_.threads, prediction);
}

Eigen::MatrixXd GaussianProcess::JointCovariance(
    const std::vector<int>& candidates) const {
  return posterior_.JointCovariance(*space_, mean_, candidates);
}

// The density of the posterior at 1 over that at 0, over the same of the prior.
double GaussianProcess::LogOddsOfOne(Eigen::Index j) const {
  const auto log_ratio = [](double mean, double stddev) {
    return (mean - 0.5) / (stddev * stddev);
  };
  const ParametricMean::Coefficient& prior = mean_.coefficients[j];
  return log_ratio(hyperparameters().log_coefficients[j],
                   posterior_.LogCoefficientStddev(j)) -
         log_ratio(prior.log_center, prior.log_stddev);
}

Prediction GaussianProcess::LeaveOneOut() const {
  return posterior_.LeaveOneOut(observations_.value);
}

}  // namespace surrogates
