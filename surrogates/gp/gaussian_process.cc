#include "surrogates/gp/gaussian_process.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "surrogates/gp/fit.h"
#include "surrogates/gp/parallel.h"
#include "surrogates/gp/starting_points.h"

namespace surrogates {
namespace {

constexpr int kBlock = 256;    // candidates predicted at a time
constexpr int kFinalists = 3;  // of the starts run to convergence

// Bounds of the fit that are no options: the signal's standard deviation
// relative to the target's spread, and coefficients in prior deviations.
constexpr double kMinSignal = 1e-4;
constexpr double kMaxSignal = 1e2;
constexpr double kCoefficientReach = 6.0;

void Require(bool condition, std::string_view what) {
  if (!condition) {
    throw std::invalid_argument(fmt::format("GaussianProcess: {}", what));
  }
}

// In an order of their own, so that results are the same to the last bit for
// any order of the same observations.
Observations Sorted(const Observations& observations) {
  std::vector<int> order(observations.candidate.size());
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&](int i) {
    return std::tuple(observations.candidate[static_cast<std::size_t>(i)],
                      observations.value[i],
                      observations.noise_variance[i]);
  };
  std::stable_sort(order.begin(), order.end(), [&](int i, int j) {
    return key(i) < key(j);
  });
  Observations sorted;
  sorted.value = observations.value(order);
  sorted.noise_variance = observations.noise_variance(order);
  for (const int i : order) {
    sorted.candidate.push_back(
        observations.candidate[static_cast<std::size_t>(i)]);
  }
  return sorted;
}

HyperparameterBox BoxOf(const ParametricMean& mean,
                        const GaussianProcess::Options& options,
                        int dimensions,
                        double target_scale) {
  const Eigen::Index size = dimensions + 1 + mean.size();
  HyperparameterBox box{Eigen::VectorXd(size), Eigen::VectorXd(size)};
  box.lower.head(dimensions).setConstant(std::log(options.min_length_scale));
  box.upper.head(dimensions).setConstant(std::log(options.max_length_scale));
  box.lower[dimensions] = 2.0 * std::log(kMinSignal * target_scale);
  box.upper[dimensions] = 2.0 * std::log(kMaxSignal * target_scale);
  Eigen::Index i = dimensions + 1;
  for (const ParametricMean::Coefficient& coefficient : mean.coefficients) {
    const double reach = kCoefficientReach * coefficient.log_stddev;
    box.lower[i] = coefficient.log_center - reach;
    box.upper[i] = coefficient.log_center + reach;
    ++i;
  }
  return box;
}

}  // namespace

struct GaussianProcess::Buffers {
  CrossCorrelation::Buffers cross;
  Eigen::MatrixXd k_star;  // [n, block]
  Eigen::MatrixXd v;       // L^-1 k_star
  Eigen::ArrayXd link;     // derivatives of the mean, [block]
  Eigen::MatrixXd spread;  // what coefficients add, [block, m]
};

GaussianProcess::GaussianProcess(const EncodedSpace& space,
                                 ParametricMean mean,
                                 const Options& options)
    : space_(&space), mean_(std::move(mean)), options_(options) {
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
  Require(options.max_iterations >= 1, "max_iterations must be at least 1");
  Require(options.relative_noise_floor >= 0.0,
          "relative_noise_floor must not be negative");
  Require(options.target_scale >= 0.0, "target_scale must not be negative");
  Require(options.signal_log_stddev > 0.0,
          "signal_log_stddev must be positive");
  Require(options.min_length_scale > 0.0 &&
              options.min_length_scale < options.max_length_scale,
          "length scales need 0 < min < max");
  Fit({});  // the prior alone, so that Predict is defined from the start
}

void GaussianProcess::Validate(const Observations& observations) const {
  const Eigen::Index n = observations.size();
  Require(
      observations.value.size() == n && observations.noise_variance.size() == n,
      "observations need one value and one noise variance each");
  for (const int candidate : observations.candidate) {
    Require(candidate >= 0 && candidate < space_->size(),
            "an observation is of no candidate of the space");
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

KernelPriors GaussianProcess::Priors(double target_scale) const {
  KernelPriors priors =
      KernelPriors::DimensionScaled(space_->dimension_count(), target_scale);
  priors.signal_variance.log_center += options_.signal_log_center;
  priors.signal_variance.log_stddev = options_.signal_log_stddev;
  return priors;
}

Likelihood GaussianProcess::MakeLikelihood(const Observations& observations,
                                           const KernelPriors& priors) const {
  return {*space_,
          mean_,
          observations,
          priors,
          {.white = options_.mean_only,
           .relative_noise_floor = options_.relative_noise_floor,
           .with_priors = !options_.as_printed,
           .integrate_coefficients = Integrates()}};
}

void GaussianProcess::SetLogCenters(const Eigen::VectorXd& log_centers) {
  Require(log_centers.size() == mean_.size() && log_centers.allFinite(),
          "SetLogCenters needs one finite value per coefficient");
  for (Eigen::Index j = 0; j < log_centers.size(); ++j) {
    mean_.coefficients[static_cast<std::size_t>(j)].log_center = log_centers[j];
  }
}

FitSummary GaussianProcess::Fit(const Observations& unsorted) {
  Validate(unsorted);
  const Observations observations = Sorted(unsorted);
  const bool empty = observations.size() == 0;
  const int dimensions = options_.mean_only ? 0 : space_->dimension_count();
  const double scale =
      TargetScale(observations, PriorModes(mean_, Priors(1.0), dimensions));
  const KernelPriors priors = Priors(scale);
  std::vector<Hyperparameters> starts = StartingPoints(
      mean_, priors, observations, dimensions, options_.starts, options_.seed);
  if (options_.warm_start && fitted_) {
    starts.push_back(hyperparameters_);
  }
  Likelihood likelihood = MakeLikelihood(observations, priors);
  HyperparameterFit fit{.best = starts.front(), .converged = true};
  if (!empty) {
    // Without priors the starts end far apart: each runs to its end.
    const int finalists = static_cast<int>(starts.size());
    fit = MaximiseOverStarts(
        likelihood,
        starts,
        BoxOf(mean_, options_, dimensions, scale),
        {.max_iterations = options_.max_iterations,
         .finalists = options_.as_printed ? finalists : kFinalists,
         .threads = options_.threads});
  }
  fitted_ = !empty;
  hyperparameters_ = fit.best;
  SetPosterior(observations, likelihood);
  FitSummary summary = Summarise(observations, scale);
  summary.log_posterior = log_posterior_;
  summary.evaluations = fit.evaluations;
  summary.starts = empty ? 0 : static_cast<int>(starts.size());
  summary.jitter_retries = fit.jitter_retries;
  summary.converged = fit.converged;
  return summary;
}

void GaussianProcess::Condition(const Observations& unsorted,
                                const Hyperparameters& hyperparameters) {
  Validate(unsorted);
  Require(hyperparameters.log_length_scales.size() ==
                  (options_.mean_only ? 0 : space_->dimension_count()) &&
              hyperparameters.log_coefficients.size() == mean_.size(),
          "hyperparameters do not fit the space and the mean");
  const Observations observations = Sorted(unsorted);
  Likelihood likelihood = MakeLikelihood(
      observations, Priors(TargetScale(observations, hyperparameters)));
  hyperparameters_ = hyperparameters;
  fitted_ = true;
  SetPosterior(observations, likelihood);
}

void GaussianProcess::SetPosterior(const Observations& observations,
                                   Likelihood& likelihood) {
  log_posterior_ =
      likelihood.Evaluate(likelihood.Pack(hyperparameters_), nullptr);
  Require(std::isfinite(log_posterior_),
          "the covariance of the observations cannot be factorised");
  const Eigen::Index n = options_.mean_only ? 0 : observations.size();
  if (n > 0) {
    cross_ = CrossCorrelation(Columns(*space_, observations.candidate),
                              hyperparameters_.log_length_scales.array().exp());
  }
  inverse_factor_.setIdentity(n, n);
  if (n > 0) {
    likelihood.cholesky().triangularView<Eigen::Lower>().solveInPlace(
        inverse_factor_);
  }
  alpha_ = likelihood.alpha().head(n);
  coefficient_data_.resize(0, 0);
  coefficient_prior_.resize(0, 0);
  if (Integrates()) {
    Eigen::MatrixXd inverse =
        Eigen::MatrixXd::Identity(mean_.size(), mean_.size());
    likelihood.coefficient_cholesky()
        .triangularView<Eigen::Lower>()
        .solveInPlace(inverse);
    coefficient_data_ =
        likelihood.weighted_jacobian().topRows(n) * inverse.transpose();
    coefficient_prior_ =
        hyperparameters_.log_coefficients.array().exp().matrix().asDiagonal() *
        inverse.transpose();
  }
}

FitSummary GaussianProcess::Summarise(const Observations& observations,
                                      double target_scale) const {
  FitSummary summary;
  const auto add = [&](std::string name, double value) {
    summary.parameters.push_back({std::move(name), value});
  };
  const Hyperparameters& h = hyperparameters_;
  for (Eigen::Index k = 0; k < h.log_length_scales.size(); ++k) {
    add(fmt::format("length_scale[{}]",
                    space_->dimensions[static_cast<std::size_t>(k)]),
        std::exp(h.log_length_scales[k]));
  }
  const double signal_variance = std::exp(h.log_signal_variance);
  add(options_.mean_only ? "misfit_stddev" : "signal_stddev",
      std::sqrt(signal_variance));
  for (Eigen::Index j = 0; j < mean_.size(); ++j) {
    add(fmt::format("prior[{}]",
                    mean_.coefficients[static_cast<std::size_t>(j)].name),
        std::exp(h.log_coefficients[j]));
  }
  if (observations.size() > 0) {
    const double floor = options_.relative_noise_floor * signal_variance;
    add("noise_stddev",
        std::sqrt(observations.noise_variance.cwiseMax(floor).mean()));
  }
  add("target_scale", target_scale);
  return summary;
}

void GaussianProcess::Predict(Prediction& prediction) const {
  const int size = space_->size();
  const Eigen::Index n = alpha_.size();
  prediction.mean = mean_.EvaluateAll(hyperparameters_.log_coefficients);
  prediction.variance.setConstant(
      size, std::exp(hyperparameters_.log_signal_variance));
  if (n == 0 && !Integrates()) {
    return;
  }
  const int blocks = (size + kBlock - 1) / kBlock;
  const int workers = std::min(options_.threads, blocks);
  std::vector<Buffers> buffers(static_cast<std::size_t>(workers));
  for (Buffers& buffer : buffers) {
    buffer.k_star.resize(n, kBlock);
    buffer.v.resize(n, kBlock);
    buffer.link.resize(kBlock);
    buffer.spread.resize(kBlock, coefficient_prior_.cols());
  }
  ParallelFor(blocks, workers, [&](int worker, int block) {
    const int begin = block * kBlock;
    PredictBlock(begin,
                 std::min(kBlock, size - begin),
                 buffers[static_cast<std::size_t>(worker)],
                 prediction);
  });
}

void GaussianProcess::PredictBlock(int begin,
                                   int columns,
                                   Buffers& buffers,
                                   Prediction& prediction) const {
  const double signal_variance = std::exp(hyperparameters_.log_signal_variance);
  auto correlation = buffers.k_star.leftCols(columns);
  auto variance = prediction.variance.segment(begin, columns).array();
  const bool informed = alpha_.size() > 0;
  if (informed) {
    auto v = buffers.v.leftCols(columns);
    cross_.Evaluate(
        space_->points.middleCols(begin, columns), buffers.cross, correlation);
    v.noalias() = inverse_factor_.triangularView<Eigen::Lower>() * correlation;
    prediction.mean.segment(begin, columns).noalias() +=
        signal_variance * (correlation.transpose() * alpha_);
    // Rounding can push the variance at an observed point below zero.
    variance =
        (signal_variance - signal_variance * signal_variance *
                               v.colwise().squaredNorm().transpose().array())
            .max(0.0);
  }
  if (Integrates()) {
    // |L_M^-1 (J_* - J^T A^-1 k_*)|^2.
    auto link = buffers.link.head(columns);
    auto spread = buffers.spread.topRows(columns);
    mean_.LinkDerivatives(begin, hyperparameters_.log_coefficients, link);
    spread.noalias() =
        mean_.features.middleRows(begin, columns) * coefficient_prior_;
    spread.array().colwise() *= link;
    if (informed) {
      spread.noalias() -=
          signal_variance * (correlation.transpose() * coefficient_data_);
    }
    variance += spread.rowwise().squaredNorm().array();
  }
}

}  // namespace surrogates
