#include "surrogates/gp/posterior.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>

#include <Eigen/Cholesky>

#include "common/parallel.h"
#include "surrogates/gp/kernel.h"
#include "surrogates/gp/tile.h"

namespace surrogates {
namespace {

// Least pivot of an appended observation, in units of the signal variance;
// below it the covariance is factorized again, which may add jitter.
constexpr double kLeastPivot = 1e-9;

}  // namespace

// Rows of kTile candidates, side by side (see tile.h), in memory of the caller.
struct Posterior::Buffers {
  using Rows = Eigen::Map<Eigen::ArrayXd>;

  Rows points;                      // of the candidates over length scales, [d]
  Rows correlation;                 // k_* / s^2, [n]
  Rows explained;                   // |L^-1 k_*|^2 / s^4, [1]
  Rows weighted;                    // by weights_, [1 + m]
  Rows features;                    // of the mean, [m]
  Rows spread;                      // what coefficients add, [m]
  Rows link;                        // derivatives of the mean, [1]
  Rows mean;                        // the result, [1]
  Rows variance;                    // the result, [1]
  std::array<int, kTile> family{};  // of the candidates

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

double Posterior::SignalVariance() const {
  return std::exp(hyperparameters_.log_signal_variance);
}

double Posterior::NuggetVariance() const {
  return options_.nugget ? std::exp(hyperparameters_.log_nugget_variance) : 0.0;
}

double Posterior::FamilyVariance() const {
  return options_.family ? std::exp(hyperparameters_.log_family_variance) : 0.0;
}

// Sets the families of the observed `candidates`; those with a column already
// are the first.
void Posterior::SetFamilies(const EncodedSpace& space,
                            const std::vector<int>& candidates) {
  if (!options_.family) {
    return;
  }
  const Families& families = space.families;
  const Eigen::Index old = family_correlation_.cols();
  const auto n = static_cast<Eigen::Index>(candidates.size());
  family_correlation_.conservativeResize(families.size(), n);
  const double ratio = FamilyVariance() / SignalVariance();
  for (Eigen::Index i = old; i < n; ++i) {
    const int family = families.of_candidate[candidates[i]];
    for (int other = 0; other < families.size(); ++other) {
      family_correlation_(other, i) =
          ratio * std::pow(options_.family_correlation,
                           families.Differences(family, other));
    }
  }
}

bool Posterior::Condition(const EncodedSpace& space,
                          const Observations& observations,
                          const Hyperparameters& hyperparameters,
                          Likelihood& likelihood) {
  hyperparameters_ = hyperparameters;
  log_density_ =
      likelihood.Evaluate(likelihood.Pack(hyperparameters_), nullptr);
  if (!std::isfinite(log_density_)) {
    return false;
  }
  information_gain_ = likelihood.InformationGain();
  inverse_length_scale_ = hyperparameters_.log_length_scales.unaryExpr(
      [](double log_l) { return std::exp(-log_l); });
  coefficient_ =
      likelihood.mean().Coefficients(hyperparameters_.log_coefficients);
  logarithmic_ = likelihood.mean().logarithmic();
  const Eigen::Index n = options_.iid ? 0 : observations.size();
  inverse_factor_.resize(n, n);
  if (n > 0) {
    scaled_points_ = ScaledPoints(space, observations.candidate).transpose();
    inverse_factor_ = likelihood.InverseFactor().transpose();
  }
  family_correlation_.resize(0, 0);
  if (!options_.iid) {
    SetFamilies(space, observations.candidate);
  }
  const bool integrates = options_.integrate_coefficients;
  weights_.resize(1 + (integrates ? coefficient_.size() : 0), n);
  weights_.row(0) = likelihood.alpha().head(n).transpose();
  if (integrates) {
    weighted_jacobian_ = likelihood.weighted_jacobian().topRows(n);
    coefficient_factor_ = likelihood.coefficient_cholesky();
    SetCoefficients();
  }
  return true;
}

// Sets what follows from A^-1 J and the factor of M.
void Posterior::SetCoefficients() {
  Eigen::MatrixXd inverse =
      Eigen::MatrixXd::Identity(coefficient_.size(), coefficient_.size());
  coefficient_factor_.triangularView<Eigen::Lower>().solveInPlace(inverse);
  weights_.bottomRows(coefficient_.size()) =
      inverse * weighted_jacobian_.transpose();
  if (logarithmic_) {
    coefficient_prior_ = inverse;
    return;
  }
  coefficient_prior_ =
      inverse *
      hyperparameters_.log_coefficients.array().exp().matrix().asDiagonal();
}

Eigen::MatrixXd Posterior::ScaledPoints(
    const EncodedSpace& space, const std::vector<int>& candidates) const {
  return hyperparameters_.log_length_scales.array()
             .exp()
             .inverse()
             .matrix()
             .asDiagonal() *
         Columns(space, candidates);
}

// With v = L^-1 k and the new diagonal element e = sqrt(k_nn + noise - v^T v),
// L^-1 gains the row
//
//   b = [-v^T L^-1, 1] / e,
//
// A^-1 becomes [A^-1 0; 0 0] + b^T b, and M becomes M + (b J)^T (b J).
bool Posterior::Append(const EncodedSpace& space, const ParametricMean& mean,
                       const Observations& observations, double noise) {
  const Eigen::Index n = weights_.cols();
  const double signal_variance = SignalVariance();
  const Eigen::VectorXd point =
      ScaledPoints(space, {observations.candidate.back()}).col(0);
  Eigen::VectorXd covariance(n);
  if (n > 0) {
    Eigen::ArrayXd k =
        (scaled_points_.rowwise() - point.transpose()).rowwise().squaredNorm();
    MaternCorrelation(k, k, nullptr);
    if (options_.family) {
      const int family =
          space.families.of_candidate[observations.candidate.back()];
      k += family_correlation_.row(family).transpose().array();
    }
    covariance = signal_variance * k;
  }
  const Eigen::VectorXd v =
      inverse_factor_.triangularView<Eigen::Lower>() * covariance;
  noise += NuggetVariance();
  const double square =
      signal_variance + FamilyVariance() + noise - v.squaredNorm();
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
  mean.Evaluate(observations.candidate, hyperparameters_.log_coefficients,
                prior_mean, &jacobian);
  const double whitened = b * (observations.value - prior_mean);
  log_density_ -= 0.5 * whitened * whitened + std::log(e) +
                  0.5 * std::log(2.0 * std::numbers::pi);
  information_gain_ += std::log(e) - 0.5 * std::log(noise);

  inverse_factor_.conservativeResize(n + 1, n + 1);
  inverse_factor_.col(n).setZero();
  inverse_factor_.row(n) = b;
  scaled_points_.conservativeResize(n + 1, point.size());
  scaled_points_.row(n) = point.transpose();
  SetFamilies(space, observations.candidate);
  weights_.conservativeResize(Eigen::NoChange, n + 1);
  weights_(0, n) = 0.0;
  weights_.row(0) += whitened * b;
  if (options_.integrate_coefficients) {
    const Eigen::RowVectorXd gain = b * jacobian;
    weighted_jacobian_.conservativeResize(n + 1, Eigen::NoChange);
    weighted_jacobian_.row(n).setZero();
    weighted_jacobian_ += b.transpose() * gain;
    log_density_ += coefficient_factor_.diagonal().array().log().sum();
    Eigen::MatrixXd precision = gain.transpose() * gain;
    precision.selfadjointView<Eigen::Lower>().rankUpdate(
        Eigen::MatrixXd(coefficient_factor_.triangularView<Eigen::Lower>()));
    coefficient_factor_ = precision.llt().matrixL();
    log_density_ -= coefficient_factor_.diagonal().array().log().sum();
    SetCoefficients();
  }
  return true;
}

void Posterior::Predict(const EncodedSpace& space, const ParametricMean& mean,
                        int count, const int* chosen, int threads,
                        PredictionView prediction) const {
  constexpr int kGrain = 16;  // tiles that a thread takes at a time
  const int tiles = (count + kTile - 1) / kTile;
  const int workers = std::clamp((tiles + kGrain - 1) / kGrain, 1, threads);
  const Eigen::Index d = scaled_points_.cols();
  const Eigen::Index n = weights_.cols();
  const Eigen::Index m = mean.size();
  // Buffers of all workers, owned by the calling thread. They grow to the
  // largest model and are reused by later calls.
  thread_local std::vector<double> memory;
  thread_local std::vector<Buffers> buffers_of_caller;
  std::vector<Buffers>& buffers = buffers_of_caller;
  const Eigen::Index size = Buffers::Size(d, n, m);
  if (memory.size() < static_cast<std::size_t>(workers * size)) {
    memory.resize(workers * size);
  }
  buffers.clear();
  for (int worker = 0; worker < workers; ++worker) {
    buffers.emplace_back(memory.data() + worker * size, d, n, m);
  }
  common::ParallelFor(
      tiles, workers,
      [&](int worker, int tile) {
        Buffers& buffer = buffers[worker];
        const int begin = tile * kTile;
        const int columns = std::min(kTile, count - begin);
        LoadTile(space, mean, begin, columns, chosen, buffer);
        PredictTile(mean, buffer);
        prediction.mean.segment(begin, columns) = buffer.mean.head(columns);
        prediction.variance.segment(begin, columns) =
            buffer.variance.head(columns);
      },
      kGrain);
}

// The last tile is not full: the rest holds values of an earlier tile, whose
// results are not read.
void Posterior::LoadTile(const EncodedSpace& space, const ParametricMean& mean,
                         int begin, int columns, const int* chosen,
                         Buffers& buffers) const {
  const Eigen::Index d = scaled_points_.cols();
  for (int t = 0; t < columns; ++t) {
    const int candidate = chosen != nullptr ? chosen[begin + t] : begin + t;
    const auto point = space.points.col(candidate);
    for (Eigen::Index k = 0; k < d; ++k) {
      buffers.points[k * kTile + t] = point[k] * inverse_length_scale_[k];
    }
    if (options_.family) {
      buffers.family[t] = space.families.of_candidate[candidate];
    }
  }
  for (Eigen::Index j = 0; j < mean.size(); ++j) {
    auto row = buffers.features.segment(j * kTile, columns);
    if (chosen == nullptr) {
      row = mean.features.col(j).segment(begin, columns).array();
    } else {
      for (int t = 0; t < columns; ++t) {
        row[t] = mean.features(chosen[begin + t], j);
      }
    }
  }
}

void Posterior::PredictTile(const ParametricMean& mean,
                            Buffers& buffers) const {
  // The prior mean; the variance of an untried configuration includes its
  // nugget.
  ProductTile(coefficient_.data(), 1, mean.size(), buffers.features.data(),
              buffers.mean.data());
  mean.ApplyLink(buffers.mean, buffers.link);
  buffers.variance.setConstant(SignalVariance() + FamilyVariance() +
                               NuggetVariance());
  if (weights_.cols() > 0) {
    AddObservations(buffers);
  }
  if (options_.integrate_coefficients) {
    AddCoefficients(buffers);
  }
}

// Adds k_*^T A^-1 (y - m) to the mean and takes |L^-1 k_*|^2 off the variance.
void Posterior::AddObservations(Buffers& buffers) const {
  const double signal_variance = SignalVariance();
  const auto n = static_cast<int>(weights_.cols());
  MaternTile(scaled_points_.data(), n, static_cast<int>(scaled_points_.cols()),
             buffers.points.data(), buffers.correlation.data());
  if (options_.family) {
    AddFamilies(buffers);
  }
  TriangularSquaresTile(inverse_factor_.data(), n, buffers.correlation.data(),
                        buffers.explained.data());
  ProductTile(weights_.data(), static_cast<int>(weights_.rows()), n,
              buffers.correlation.data(), buffers.weighted.data());
  buffers.mean += signal_variance * buffers.weighted.head(kTile);
  // Rounding can push the variance at an observed point below zero.
  buffers.variance =
      (buffers.variance - signal_variance * signal_variance * buffers.explained)
          .max(0.0);
}

// Adds the correlation by families. Neighbouring candidates are mostly of one
// family.
void Posterior::AddFamilies(Buffers& buffers) const {
  const Eigen::Index n = family_correlation_.cols();
  for (int begin = 0; begin < kTile;) {
    const int family = buffers.family[begin];
    int end = begin + 1;
    while (end < kTile && buffers.family[end] == family) {
      ++end;
    }
    const double* const correlation = family_correlation_.row(family).data();
    for (Eigen::Index i = 0; i < n; ++i) {
      buffers.correlation.segment(i * kTile + begin, end - begin) +=
          correlation[i];
    }
    begin = end;
  }
}

// Adds |L_M^-1 (J_* - J^T A^-1 k_*)|^2 to the variance.
void Posterior::AddCoefficients(Buffers& buffers) const {
  const double signal_variance = SignalVariance();
  const auto m = static_cast<int>(coefficient_.size());
  ProductTile(coefficient_prior_.data(), m, m, buffers.features.data(),
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

// Adds the covariance of families to the lower triangle of `covariance`
// [size, size] and to `to_observations` [n, size].
void Posterior::AddFamilies(const EncodedSpace& space,
                            const std::vector<int>& candidates,
                            Eigen::MatrixXd& covariance,
                            Eigen::MatrixXd& to_observations) const {
  if (!options_.family) {
    return;
  }
  const double family_variance = FamilyVariance();
  const double signal_variance = SignalVariance();
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const auto column = static_cast<Eigen::Index>(i);
    for (std::size_t j = i; j < candidates.size(); ++j) {
      covariance(static_cast<Eigen::Index>(j), column) +=
          family_variance * FamilyCorrelation(space, candidates[j],
                                              candidates[i],
                                              options_.family_correlation);
    }
    if (to_observations.rows() > 0) {
      const int family = space.families.of_candidate[candidates[i]];
      to_observations.col(column) +=
          signal_variance * family_correlation_.row(family).transpose();
    }
  }
}

Eigen::MatrixXd Posterior::JointCovariance(
    const EncodedSpace& space, const ParametricMean& mean,
    const std::vector<int>& candidates) const {
  const double signal_variance = SignalVariance();
  const auto size = static_cast<Eigen::Index>(candidates.size());
  const Eigen::Index n = weights_.cols();
  Eigen::MatrixXd covariance = Eigen::MatrixXd::Zero(size, size);
  Eigen::MatrixXd to_observations(n, size);  // k_*
  if (!options_.iid) {
    const Eigen::MatrixXd points = ScaledPoints(space, candidates);
    const Eigen::MatrixXd observed = scaled_points_.transpose();
    const auto kernel = [&](const auto& others, Eigen::Index i) {
      Eigen::ArrayXd k =
          (others.colwise() - points.col(i)).colwise().squaredNorm();
      MaternCorrelation(k, k, nullptr);
      return Eigen::VectorXd(signal_variance * k);
    };
    for (Eigen::Index i = 0; i < size; ++i) {
      covariance.col(i).tail(size - i) = kernel(points.rightCols(size - i), i);
      if (n > 0) {
        to_observations.col(i) = kernel(observed, i);
      }
    }
    AddFamilies(space, candidates, covariance, to_observations);
    covariance.triangularView<Eigen::StrictlyUpper>() = covariance.transpose();
  } else {
    covariance.diagonal().setConstant(signal_variance);
  }
  if (n > 0) {  // Eigen divides by the size of a triangular matrix
    const Eigen::MatrixXd explained =
        inverse_factor_.triangularView<Eigen::Lower>() * to_observations;
    covariance.noalias() -= explained.transpose() * explained;
  }
  if (options_.integrate_coefficients) {
    Eigen::VectorXd ignored;
    Eigen::MatrixXd jacobian;
    mean.Evaluate(candidates, hyperparameters_.log_coefficients, ignored,
                  &jacobian);
    Eigen::MatrixXd spread = jacobian.transpose();
    spread.noalias() -= weighted_jacobian_.transpose() * to_observations;
    coefficient_factor_.triangularView<Eigen::Lower>().solveInPlace(spread);
    covariance.noalias() += spread.transpose() * spread;
  }
  return covariance;
}

// With B = (A + J S J^T)^-1 = A^-1 - C C^T, C^T the rows of weights_ below the
// first, the prediction from the others is y_i - alpha_i / B_ii with variance
// 1 / B_ii: at the optimum of the coefficients alpha = A^-1 (y - m) is B times
// the deviation from the prior mean.
Prediction Posterior::LeaveOneOut(const Eigen::VectorXd& values) const {
  const Eigen::Index n = weights_.cols();
  Prediction others;
  others.variance =
      (inverse_factor_.colwise().squaredNorm() -
       weights_.bottomRows(weights_.rows() - 1).colwise().squaredNorm())
          .cwiseInverse()
          .transpose();
  others.mean = values.head(n) -
                weights_.row(0).transpose().cwiseProduct(others.variance);
  return others;
}

// The standard deviation of log c, from M^-1 = L_M^-T L_M^-1.
double Posterior::LogCoefficientStddev(Eigen::Index j) const {
  return coefficient_prior_.col(j).norm() /
         (logarithmic_ ? 1.0 : std::exp(hyperparameters_.log_coefficients[j]));
}

}  // namespace surrogates
