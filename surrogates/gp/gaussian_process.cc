#include "surrogates/gp/gaussian_process.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <Eigen/Cholesky>
#include <fmt/format.h>

#include "surrogates/gp/fit.h"
#include "surrogates/gp/kernel.h"
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

// Of an appended observation's pivot, in units of the signal variance: below
// it the factorisation is made anew, which may add jitter.
constexpr double kLeastPivot = 1e-9;

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

// Rows of kTile candidates, side by side (see tile.h), in memory of the caller.
struct GaussianProcess::Buffers {
  using Rows = Eigen::Map<Eigen::ArrayXd>;

  Rows points;       // of the candidates over length scales, [d]
  Rows correlation;  // k_* / s^2, [n]
  Rows explained;    // |L^-1 k_*|^2 / s^4, [1]
  Rows weighted;     // by weights_, [1 + m]
  Rows features;     // of the mean, [m]
  Rows spread;       // what coefficients add, [m]
  Rows link;         // derivatives of the mean, [1]
  Rows mean;         // the result, [1]
  Rows variance;     // the result, [1]

  static Eigen::Index Size(Eigen::Index d, Eigen::Index n, Eigen::Index m) {
    return (d + n + (1 + m) + 2 * m + 4) * kTile;
  }

  // Takes Size(d, n, m) numbers from `memory` on.
  Buffers(double* memory, Eigen::Index d, Eigen::Index n, Eigen::Index m)
      : points(Take(memory, d)),
        correlation(Take(memory, n)),
        explained(Take(memory, 1)),
        weighted(Take(memory, 1 + m)),
        features(Take(memory, m)),
        spread(Take(memory, m)),
        link(Take(memory, 1)),
        mean(Take(memory, 1)),
        variance(Take(memory, 1)) {
    points.setZero();
    features.setOnes();
  }

 private:
  static Rows Take(double*& memory, Eigen::Index rows) {
    double* const begin = memory;
    memory += rows * kTile;
    return {begin, rows * kTile};
  }
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
  observations_ = Sorted(unsorted);
  const bool empty = observations_.size() == 0;
  const int dimensions = options_.mean_only ? 0 : space_->dimension_count();
  target_scale_ =
      TargetScale(observations_, PriorModes(mean_, Priors(1.0), dimensions));
  const KernelPriors priors = Priors(target_scale_);
  std::vector<Hyperparameters> starts = StartingPoints(
      mean_, priors, observations_, dimensions, options_.starts, options_.seed);
  if (options_.warm_start && fitted_) {
    starts.push_back(hyperparameters_);
  }
  Likelihood likelihood = MakeLikelihood(observations_, priors);
  HyperparameterFit fit{.best = starts.front(), .converged = true};
  if (!empty) {
    // Without priors the starts end far apart: each runs to its end.
    const int finalists = static_cast<int>(starts.size());
    fit = MaximiseOverStarts(
        likelihood,
        starts,
        BoxOf(mean_, options_, dimensions, target_scale_),
        {.max_iterations = options_.max_iterations,
         .finalists = options_.as_printed ? finalists : kFinalists,
         .threads = options_.threads});
  }
  fitted_ = !empty;
  hyperparameters_ = fit.best;
  SetPosterior(likelihood);
  FitSummary summary = Summarise();
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
  observations_ = Sorted(unsorted);
  target_scale_ = TargetScale(observations_, hyperparameters);
  Likelihood likelihood = MakeLikelihood(observations_, Priors(target_scale_));
  hyperparameters_ = hyperparameters;
  fitted_ = true;
  SetPosterior(likelihood);
}

FitSummary GaussianProcess::Append(int candidate,
                                   double value,
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
  if (options_.mean_only || !Extend()) {
    Likelihood likelihood =
        MakeLikelihood(observations_, Priors(target_scale_));
    SetPosterior(likelihood);
  }
  return Summarise();
}

void GaussianProcess::SetPosterior(Likelihood& likelihood) {
  log_posterior_ =
      likelihood.Evaluate(likelihood.Pack(hyperparameters_), nullptr);
  Require(std::isfinite(log_posterior_),
          "the covariance of the observations cannot be factorised");
  information_gain_ = likelihood.InformationGain();
  inverse_length_scale_ = hyperparameters_.log_length_scales.unaryExpr(
      [](double log_l) { return std::exp(-log_l); });
  coefficient_ = hyperparameters_.log_coefficients.array().exp();
  const Eigen::Index n = options_.mean_only ? 0 : observations_.size();
  inverse_factor_.resize(n, n);
  if (n > 0) {
    scaled_points_ = ScaledPoints(observations_.candidate).transpose();
    Eigen::MatrixXd inverse = Eigen::MatrixXd::Identity(n, n);
    likelihood.cholesky().triangularView<Eigen::Lower>().solveInPlace(inverse);
    inverse_factor_ = inverse;
  }
  weights_.resize(1 + (Integrates() ? mean_.size() : 0), n);
  weights_.row(0) = likelihood.alpha().head(n).transpose();
  if (Integrates()) {
    weighted_jacobian_ = likelihood.weighted_jacobian().topRows(n);
    coefficient_factor_ = likelihood.coefficient_cholesky();
    SetCoefficientPosterior();
  }
}

// What follows from A^-1 J and the factor of M.
void GaussianProcess::SetCoefficientPosterior() {
  Eigen::MatrixXd inverse =
      Eigen::MatrixXd::Identity(mean_.size(), mean_.size());
  coefficient_factor_.triangularView<Eigen::Lower>().solveInPlace(inverse);
  weights_.bottomRows(mean_.size()) = inverse * weighted_jacobian_.transpose();
  coefficient_prior_ =
      inverse *
      hyperparameters_.log_coefficients.array().exp().matrix().asDiagonal();
}

// Extends the posterior by the last of observations_. With v = L^-1 k and the
// new diagonal element e = sqrt(k_nn + noise - v^T v), L^-1 gains the row
//
//   b = [-v^T L^-1, 1] / e,
//
// A^-1 becomes [A^-1 0; 0 0] + b^T b, and M becomes M + (b J)^T (b J).
// False, with nothing changed, where rounding leaves no positive e^2.
bool GaussianProcess::Extend() {
  const Eigen::Index n = weights_.cols();
  const double signal_variance = std::exp(hyperparameters_.log_signal_variance);
  const Eigen::VectorXd point =
      ScaledPoints({observations_.candidate.back()}).col(0);
  Eigen::VectorXd covariance(n);
  if (n > 0) {
    Eigen::ArrayXd k =
        (scaled_points_.rowwise() - point.transpose()).rowwise().squaredNorm();
    MaternCorrelation(k, k, nullptr);
    covariance = signal_variance * k;
  }
  const Eigen::VectorXd v =
      inverse_factor_.triangularView<Eigen::Lower>() * covariance;
  const double noise =
      std::max(observations_.noise_variance[n],
               options_.relative_noise_floor * signal_variance) +
      (LearnsMisfit() ? std::exp(hyperparameters_.log_misfit_variance) : 0.0);
  const double square = signal_variance + noise - v.squaredNorm();
  if (!(square > kLeastPivot * signal_variance)) {
    return false;
  }
  const double e = std::sqrt(square);
  Eigen::RowVectorXd b(n + 1);
  b << (inverse_factor_.transpose().triangularView<Eigen::Upper>() * v)
               .transpose() *
           (-1.0 / e),
      1.0 / e;
  Eigen::VectorXd prior_mean;
  Eigen::MatrixXd jacobian;
  mean_.Evaluate(observations_.candidate,
                 hyperparameters_.log_coefficients,
                 prior_mean,
                 &jacobian);
  const double whitened = b * (observations_.value - prior_mean);
  log_posterior_ -= 0.5 * whitened * whitened + std::log(e) +
                    0.5 * std::log(2.0 * std::numbers::pi);
  information_gain_ += std::log(e) - 0.5 * std::log(noise);

  inverse_factor_.conservativeResize(n + 1, n + 1);
  inverse_factor_.col(n).setZero();
  inverse_factor_.row(n) = b;
  scaled_points_.conservativeResize(n + 1, point.size());
  scaled_points_.row(n) = point.transpose();
  weights_.conservativeResize(Eigen::NoChange, n + 1);
  weights_(0, n) = 0.0;
  weights_.row(0) += whitened * b;
  if (Integrates()) {
    const Eigen::RowVectorXd gain = b * jacobian;
    weighted_jacobian_.conservativeResize(n + 1, Eigen::NoChange);
    weighted_jacobian_.row(n).setZero();
    weighted_jacobian_ += b.transpose() * gain;
    log_posterior_ += coefficient_factor_.diagonal().array().log().sum();
    Eigen::MatrixXd precision = gain.transpose() * gain;
    precision.selfadjointView<Eigen::Lower>().rankUpdate(
        Eigen::MatrixXd(coefficient_factor_.triangularView<Eigen::Lower>()));
    coefficient_factor_ = precision.llt().matrixL();
    log_posterior_ -= coefficient_factor_.diagonal().array().log().sum();
    SetCoefficientPosterior();
  }
  return true;
}

Eigen::MatrixXd GaussianProcess::ScaledPoints(
    const std::vector<int>& candidates) const {
  return hyperparameters_.log_length_scales.array()
             .exp()
             .inverse()
             .matrix()
             .asDiagonal() *
         Columns(*space_, candidates);
}

FitSummary GaussianProcess::Summarise() const {
  FitSummary summary;
  summary.log_posterior = log_posterior_;
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
  // Of log c, from M^-1 = L_M^-T L_M^-1.
  for (Eigen::Index j = 0; Integrates() && j < mean_.size(); ++j) {
    add(fmt::format("prior_log_stddev[{}]",
                    mean_.coefficients[static_cast<std::size_t>(j)].name),
        coefficient_prior_.col(j).norm() / std::exp(h.log_coefficients[j]));
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
  prediction.Resize(space_->size());
  PredictTiles(space_->size(), nullptr, prediction.Head(space_->size()));
}

void GaussianProcess::PredictSome(std::span<const int> candidates,
                                  PredictionView prediction) const {
  PredictTiles(
      static_cast<int>(candidates.size()), candidates.data(), prediction);
}

// With B = (A + J S J^T)^-1 = A^-1 - C C^T, C^T the rows of weights_ below the
// first, the others say y_i - alpha_i / B_ii with variance 1 / B_ii: at the
// optimum of the coefficients alpha = A^-1 (y - m) is B times the deviation
// from the mean that was believed before.
Prediction GaussianProcess::LeaveOneOut() const {
  const Eigen::Index n = weights_.cols();
  Prediction others;
  others.variance =
      (inverse_factor_.colwise().squaredNorm() -
       weights_.bottomRows(weights_.rows() - 1).colwise().squaredNorm())
          .cwiseInverse()
          .transpose();
  others.mean = observations_.value.head(n) -
                weights_.row(0).transpose().cwiseProduct(others.variance);
  return others;
}

void GaussianProcess::PredictTiles(int count,
                                   const int* chosen,
                                   PredictionView prediction) const {
  constexpr int kGrain = 16;  // tiles that a thread takes at a time
  const int tiles = (count + kTile - 1) / kTile;
  const int workers =
      std::clamp((tiles + kGrain - 1) / kGrain, 1, options_.threads);
  const Eigen::Index d = scaled_points_.cols();
  const Eigen::Index n = weights_.cols();
  const Eigen::Index m = mean_.size();
  // Of whoever calls, for all workers, kept from call to call: these grow to
  // the largest model and are not allocated again.
  thread_local std::vector<double> memory;
  thread_local std::vector<Buffers> buffers_of_caller;
  std::vector<Buffers>& buffers = buffers_of_caller;
  const Eigen::Index size = Buffers::Size(d, n, m);
  if (memory.size() < static_cast<std::size_t>(workers * size)) {
    memory.resize(static_cast<std::size_t>(workers * size));
  }
  buffers.clear();
  for (int worker = 0; worker < workers; ++worker) {
    buffers.emplace_back(memory.data() + worker * size, d, n, m);
  }
  ParallelFor(
      tiles,
      workers,
      [&](int worker, int tile) {
        Buffers& buffer = buffers[static_cast<std::size_t>(worker)];
        const int begin = tile * kTile;
        const int columns = std::min(kTile, count - begin);
        LoadTile(begin, columns, chosen, buffer);
        PredictTile(buffer);
        prediction.mean.segment(begin, columns) = buffer.mean.head(columns);
        prediction.variance.segment(begin, columns) =
            buffer.variance.head(columns);
      },
      kGrain);
}

// The last tile is not full: what stands in the rest is of an earlier one, and
// nobody reads what comes of it.
void GaussianProcess::LoadTile(int begin,
                               int columns,
                               const int* chosen,
                               Buffers& buffers) const {
  const Eigen::Index d = scaled_points_.cols();
  for (int t = 0; t < columns; ++t) {
    const int candidate = chosen != nullptr ? chosen[begin + t] : begin + t;
    const auto point = space_->points.col(candidate);
    for (Eigen::Index k = 0; k < d; ++k) {
      buffers.points[k * kTile + t] = point[k] * inverse_length_scale_[k];
    }
  }
  for (Eigen::Index j = 0; j < mean_.size(); ++j) {
    auto row = buffers.features.segment(j * kTile, columns);
    if (chosen == nullptr) {
      row = mean_.features.col(j).segment(begin, columns).array();
    } else {
      for (int t = 0; t < columns; ++t) {
        row[t] = mean_.features(chosen[begin + t], j);
      }
    }
  }
}

void GaussianProcess::PredictTile(Buffers& buffers) const {
  // The prior mean; of a configuration that has not been tried the variance
  // holds its own misfit too.
  ProductTile(coefficient_.data(),
              1,
              mean_.size(),
              buffers.features.data(),
              buffers.mean.data());
  mean_.ApplyLink(buffers.mean, buffers.link);
  const double misfit =
      LearnsMisfit() ? std::exp(hyperparameters_.log_misfit_variance) : 0.0;
  buffers.variance.setConstant(std::exp(hyperparameters_.log_signal_variance) +
                               misfit);
  if (weights_.cols() > 0) {
    AddObservations(buffers);
  }
  if (Integrates()) {
    AddCoefficients(buffers);
  }
}

// Adds k_*^T A^-1 (y - m) to the mean and takes |L^-1 k_*|^2 off the variance.
void GaussianProcess::AddObservations(Buffers& buffers) const {
  const double signal_variance = std::exp(hyperparameters_.log_signal_variance);
  const auto n = static_cast<int>(weights_.cols());
  MaternTile(scaled_points_.data(),
             n,
             static_cast<int>(scaled_points_.cols()),
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
  buffers.mean += signal_variance * buffers.weighted.head(kTile);
  // Rounding can push the variance at an observed point below zero.
  buffers.variance =
      (buffers.variance - signal_variance * signal_variance * buffers.explained)
          .max(0.0);
}

// Adds |L_M^-1 (J_* - J^T A^-1 k_*)|^2 to the variance.
void GaussianProcess::AddCoefficients(Buffers& buffers) const {
  const double signal_variance = std::exp(hyperparameters_.log_signal_variance);
  const int m = mean_.size();
  ProductTile(coefficient_prior_.data(),
              m,
              m,
              buffers.features.data(),
              buffers.spread.data());
  for (int j = 0; j < m; ++j) {
    auto spread = buffers.spread.segment(j * kTile, kTile);
    spread *= buffers.link;
    if (weights_.cols() > 0) {
      spread -=
          signal_variance * buffers.weighted.segment((1 + j) * kTile, kTile);
    }
    buffers.variance += spread.square();
  }
}

}  // namespace surrogates
