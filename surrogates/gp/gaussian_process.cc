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
#include "surrogates/gp/tile.h"

namespace surrogates {
namespace {

constexpr int kFinalists = 3;  // of the starts run to convergence

// Bounds of the fit that are no options: the signal's standard deviation
// relative to the target's spread, and coefficients in prior deviations.
constexpr double kMinSignal = 1e-4;
constexpr double kMaxSignal = 1e2;
constexpr double kMinMisfit = 1e-4;
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
  const bool misfit =
      options.learn_misfit && !options.as_printed && !options.mean_only;
  const Eigen::Index size = dimensions + 1 + mean.size() + (misfit ? 1 : 0);
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
  if (misfit) {
    box.lower[i] = 2.0 * std::log(kMinMisfit * target_scale);
    box.upper[i] = 2.0 * std::log(kMaxSignal * target_scale);
  }
  return box;
}

}  // namespace

struct GaussianProcess::Buffers {
  Eigen::ArrayXd points;       // of the candidates over length scales, [d]
  Eigen::ArrayXd correlation;  // k_* / s^2, [n]
  Eigen::ArrayXd explained;    // |L^-1 k_*|^2 / s^4, [1]
  Eigen::ArrayXd weighted;     // by weights_, [1 + m]
  Eigen::ArrayXd features;     // of the mean, [m]
  Eigen::ArrayXd spread;       // what coefficients add, [m]
  Eigen::ArrayXd link;         // derivatives of the mean, [1]
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
  priors.misfit_variance = {
      .log_center = 2.0 * std::log(options_.misfit_scale * target_scale),
      .log_stddev = options_.misfit_log_stddev,
      .density_in_x = false};
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
           .integrate_coefficients = Integrates(),
           .misfit = LearnsMisfit()}};
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
  information_gain_ = likelihood.InformationGain();
  const Eigen::Index n = options_.mean_only ? 0 : observations.size();
  inverse_factor_.resize(n, n);
  if (n > 0) {
    scaled_points_ = (hyperparameters_.log_length_scales.array()
                          .exp()
                          .inverse()
                          .matrix()
                          .asDiagonal() *
                      Columns(*space_, observations.candidate))
                         .transpose();
    Eigen::MatrixXd inverse = Eigen::MatrixXd::Identity(n, n);
    likelihood.cholesky().triangularView<Eigen::Lower>().solveInPlace(inverse);
    inverse_factor_ = inverse;
  }
  weights_.resize(1 + (Integrates() ? mean_.size() : 0), n);
  weights_.row(0) = likelihood.alpha().head(n).transpose();
  coefficient_prior_.resize(0, 0);
  if (Integrates()) {
    Eigen::MatrixXd inverse =
        Eigen::MatrixXd::Identity(mean_.size(), mean_.size());
    likelihood.coefficient_cholesky()
        .triangularView<Eigen::Lower>()
        .solveInPlace(inverse);
    weights_.bottomRows(mean_.size()) =
        inverse * likelihood.weighted_jacobian().topRows(n).transpose();
    coefficient_prior_ =
        inverse *
        hyperparameters_.log_coefficients.array().exp().matrix().asDiagonal();
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
  if (LearnsMisfit()) {
    add("misfit_stddev", std::exp(0.5 * h.log_misfit_variance));
  }
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
  const Eigen::Index n = weights_.cols();
  prediction.mean = mean_.EvaluateAll(hyperparameters_.log_coefficients);
  // Of a configuration that has not been tried: its own misfit included.
  const double misfit =
      LearnsMisfit() ? std::exp(hyperparameters_.log_misfit_variance) : 0.0;
  prediction.variance.setConstant(
      size, std::exp(hyperparameters_.log_signal_variance) + misfit);
  if (n == 0 && !Integrates()) {
    return;
  }
  const int tiles = (size + kTile - 1) / kTile;
  const int workers = std::min(options_.threads, tiles);
  std::vector<Buffers> buffers(static_cast<std::size_t>(workers));
  for (Buffers& buffer : buffers) {
    buffer.points.resize(scaled_points_.cols() * kTile);
    buffer.correlation.resize(n * kTile);
    buffer.explained.resize(kTile);
    buffer.weighted.resize(weights_.rows() * kTile);
    buffer.features.resize(mean_.size() * kTile);
    buffer.spread.resize(mean_.size() * kTile);
    buffer.link.resize(kTile);
  }
  ParallelFor(tiles, workers, [&](int worker, int tile) {
    const int begin = tile * kTile;
    PredictTile(begin,
                std::min(kTile, size - begin),
                buffers[static_cast<std::size_t>(worker)],
                prediction);
  });
}

void GaussianProcess::PredictTile(int begin,
                                  int columns,
                                  Buffers& buffers,
                                  Prediction& prediction) const {
  const double signal_variance = std::exp(hyperparameters_.log_signal_variance);
  const auto n = static_cast<int>(weights_.cols());
  const int m = mean_.size();
  auto mean = prediction.mean.segment(begin, columns).array();
  auto variance = prediction.variance.segment(begin, columns).array();
  if (n > 0) {
    const auto d = static_cast<int>(scaled_points_.cols());
    for (int k = 0; k < d; ++k) {
      // The last tile is not full: what stands in the rest is not read.
      buffers.points.segment(k * kTile, columns) =
          space_->points.row(k).segment(begin, columns).transpose().array() *
          std::exp(-hyperparameters_.log_length_scales[k]);
    }
    MaternTile(scaled_points_.data(),
               n,
               d,
               buffers.points.data(),
               buffers.correlation.data());
    TriangularSquaresTile(inverse_factor_.data(),
                          n,
                          buffers.correlation.data(),
                          buffers.explained.data());
    ProductTile(weights_.data(),
                static_cast<int>(weights_.rows()),
                n,
                buffers.correlation.data(),
                buffers.weighted.data());
    mean += signal_variance * buffers.weighted.head(columns);
    // Rounding can push the variance at an observed point below zero.
    variance = (variance - signal_variance * signal_variance *
                               buffers.explained.head(columns))
                   .max(0.0);
  }
  if (Integrates()) {
    // |L_M^-1 (J_* - J^T A^-1 k_*)|^2.
    auto link = buffers.link.head(columns);
    mean_.LinkDerivatives(begin, hyperparameters_.log_coefficients, link);
    for (int j = 0; j < m; ++j) {
      buffers.features.segment(j * kTile, columns) =
          mean_.features.col(j).segment(begin, columns).array();
    }
    ProductTile(coefficient_prior_.data(),
                m,
                m,
                buffers.features.data(),
                buffers.spread.data());
    for (int j = 0; j < m; ++j) {
      auto spread = buffers.spread.segment(j * kTile, columns);
      spread *= link;
      if (n > 0) {
        spread -= signal_variance *
                  buffers.weighted.segment((1 + j) * kTile, columns);
      }
      variance += spread.square();
    }
  }
}

}  // namespace surrogates
