#include "surrogates/gp/likelihood.h"

#include <cmath>
#include <numbers>

#include <Eigen/Cholesky>

#include "common/units.h"
#include "surrogates/gp/kernel.h"
#include "surrogates/gp/triangular.h"

namespace surrogates {
namespace {

using common::kInfinity;
constexpr double kFirstJitter = 1e-10;  // of the signal variance
constexpr double kLastJitter = 1e-6;

}  // namespace

double FamilyCorrelation(const EncodedSpace& space, int a, int b,
                         double correlation) {
  const auto family = [&](int candidate) {
    return space.families.of_candidate[candidate];
  };
  return std::pow(correlation,
                  space.families.Differences(family(a), family(b)));
}

double LogNormalPrior::LogDensity(double log_x, double* derivative) const {
  const double z = (log_x - log_center) / log_stddev;
  const double jacobian = density_in_x ? 1.0 : 0.0;
  *derivative = -z / log_stddev - jacobian;
  return -0.5 * z * z - jacobian * log_x;
}

KernelPriors KernelPriors::DimensionScaled(int dimensions, double spread,
                                           const NuggetPrior& nugget) {
  KernelPriors priors;
  const double d = std::max(dimensions, 1);
  priors.length_scale = {.log_center = std::numbers::sqrt2 + 0.5 * std::log(d),
                         .log_stddev = std::numbers::sqrt3,
                         .density_in_x = true};
  priors.signal_variance = {.log_center = 2.0 * std::log(spread),
                            .log_stddev = 1.0,
                            .density_in_x = false};
  priors.nugget_variance = {.log_center = 2.0 * std::log(nugget.scale * spread),
                            .log_stddev = nugget.log_stddev,
                            .density_in_x = false};
  priors.family_variance = priors.nugget_variance;
  return priors;
}

Likelihood::Likelihood(const EncodedSpace& space, const ParametricMean& mean,
                       const Observations& observations,
                       const KernelPriors& priors, const Options& options)
    : mean_(&mean),
      observations_(observations),
      priors_(priors),
      options_(options),
      dimension_count_(options.iid ? 0 : space.dimension_count()) {
  if (!options.iid) {
    pairs_ = PairwiseSquaredDifferences(Columns(space, observations.candidate));
    correlation_.resize(pairs_.rows());
  }
  const Eigen::Index n = observations.size();
  if (options.family) {
    family_pairs_.resize(pairs_.rows());
    Eigen::Index pair = 0;
    for (Eigen::Index j = 0; j < n; ++j) {
      for (Eigen::Index i = j + 1; i < n; ++i) {
        family_pairs_[pair++] = FamilyCorrelation(
            space, observations.candidate[i], observations.candidate[j],
            options.family_correlation);
      }
    }
  }
  a_.setZero(Padded(n), n);
  l_.setZero(Padded(n), n);
  inverse_.setZero(Padded(n), n);
  whitened_.setZero(Padded(n), mean.size());
  noise_.resize(n);
  coefficient_precision_.resize(mean.size());
  for (Eigen::Index j = 0; j < mean.size(); ++j) {
    coefficient_precision_[j] = std::pow(mean.coefficients[j].log_stddev, -2.0);
  }
}

Eigen::VectorXd Likelihood::Pack(const Hyperparameters& parameters) const {
  Eigen::VectorXd packed(parameter_count());
  packed << parameters.log_length_scales, parameters.log_signal_variance,
      parameters.log_coefficients,
      Eigen::VectorXd::Constant(options_.nugget ? 1 : 0,
                                parameters.log_nugget_variance),
      Eigen::VectorXd::Constant(options_.family ? 1 : 0,
                                parameters.log_family_variance);
  return packed;
}

Hyperparameters Likelihood::Unpack(const Eigen::VectorXd& packed) const {
  Hyperparameters parameters{.log_length_scales = packed.head(dimension_count_),
                             .log_signal_variance = packed[dimension_count_],
                             .log_coefficients = Coefficients(packed)};
  if (options_.nugget) {
    parameters.log_nugget_variance =
        packed[dimension_count_ + 1 + mean_->size()];
  }
  if (options_.family) {
    parameters.log_family_variance = packed[packed.size() - 1];
  }
  return parameters;
}

double Likelihood::NuggetVariance(const Eigen::VectorXd& packed) const {
  return options_.nugget
             ? std::exp(packed[dimension_count_ + 1 + mean_->size()])
             : 0.0;
}

double Likelihood::FamilyVariance(const Eigen::VectorXd& packed) const {
  return options_.family ? std::exp(packed[packed.size() - 1]) : 0.0;
}

bool Likelihood::Factorise(double signal_variance, double nugget_variance,
                           double family_variance) {
  const Eigen::Index n = noise_.size();
  noise_ = observations_.noise_variance
               .cwiseMax(options_.relative_noise_floor * signal_variance)
               .array() +
           nugget_variance;
  if (options_.iid) {
    a_.diagonal() = noise_.array() + signal_variance;
    l_.diagonal() = a_.diagonal().cwiseSqrt();
    return true;  // Evaluate refuses a value that is not finite
  }
  Eigen::Index pair = 0;
  for (Eigen::Index j = 0; j < n; ++j) {
    a_(j, j) = signal_variance + family_variance + noise_[j];
    for (Eigen::Index i = j + 1; i < n; ++i) {
      a_(i, j) = signal_variance * correlation_[pair];
      if (options_.family) {
        a_(i, j) += family_variance * family_pairs_[pair];
      }
      ++pair;
    }
  }
  double added = 0.0;
  double jitter = 0.0;
  while (jitter <= kLastJitter * 1.5) {
    if (jitter > 0.0) {
      ++jitter_retries_;
      a_.diagonal().array() += jitter * signal_variance - added;
      added = jitter * signal_variance;
    }
    l_ = a_;
    if (Cholesky(l_.data(), static_cast<int>(n))) {
      return true;
    }
    jitter = jitter == 0.0 ? kFirstJitter : jitter * 10.0;
  }
  return false;
}

// Sets alpha_ and, if coefficients are integrated, the weighted Jacobian.
void Likelihood::Solve() {
  const Eigen::Index n = noise_.size();
  const Eigen::Index m = options_.integrate_coefficients ? mean_->size() : 0;
  if (n == 0) {
    alpha_.resize(0);
    weighted_jacobian_.resize(0, m);
    return;
  }
  solution_.setZero(Padded(1 + m), n);
  solution_.row(0) = residual_.transpose();
  if (m > 0) {
    solution_.middleRows(1, m) = jacobian_.transpose();
  }
  if (options_.iid) {
    solution_ *= a_.diagonal().cwiseInverse().asDiagonal();
  } else {
    CholeskySolve(l_.data(), static_cast<int>(n), solution_.data(),
                  static_cast<int>(1 + m));
  }
  alpha_ = solution_.row(0).transpose();
  weighted_jacobian_ = solution_.middleRows(1, m).transpose();
}

Eigen::MatrixXd Likelihood::InverseFactor() const {
  Eigen::MatrixXd inverse(l_.rows(), l_.cols());
  InvertTriangle(l_.data(), static_cast<int>(l_.cols()), inverse.data());
  return inverse.topRows(l_.cols());
}

double Likelihood::InformationGain() const {
  return l_.diagonal().array().log().sum() - 0.5 * noise_.array().log().sum();
}

double Likelihood::IntegrateCoefficients() {
  coefficient_l_.noalias() = jacobian_.transpose() * weighted_jacobian_;
  coefficient_l_.diagonal() += coefficient_precision_;
  // Positive definite: S^-1 is, and the rest is positive semi-definite.
  Eigen::LLT<Eigen::Ref<Eigen::MatrixXd>> factorisation(coefficient_l_);
  if (factorisation.info() != Eigen::Success) {
    return -kInfinity;
  }
  return -coefficient_l_.diagonal().array().log().sum() +
         0.5 * coefficient_precision_.array().log().sum();
}

double Likelihood::Evaluate(const Eigen::VectorXd& parameters,
                            Eigen::VectorXd* gradient) {
  if (gradient != nullptr) {
    gradient->setZero(parameter_count());
  }
  const Eigen::Index n = noise_.size();
  const double signal_variance = std::exp(parameters[dimension_count_]);
  if (!options_.iid) {
    inverse_square_ = (-2.0 * parameters.head(dimension_count_).array()).exp();
    correlation_.matrix().noalias() = pairs_ * inverse_square_;
    MaternCorrelation(correlation_, correlation_,
                      gradient != nullptr ? &slope_ : nullptr);
  }
  mean_->Evaluate(
      observations_.candidate, Coefficients(parameters), prior_mean_,
      gradient != nullptr || options_.integrate_coefficients ? &jacobian_
                                                             : nullptr);
  residual_ = observations_.value - prior_mean_;
  if (!residual_.allFinite() ||
      !Factorise(signal_variance, NuggetVariance(parameters),
                 FamilyVariance(parameters))) {
    return -kInfinity;
  }
  double log_determinant = 0.0;
  for (Eigen::Index i = 0; i < n; ++i) {
    log_determinant += 2.0 * std::log(l_(i, i));
  }
  Solve();
  double value =
      -0.5 * (residual_.dot(alpha_) + log_determinant +
              static_cast<double>(n) * std::log(2.0 * std::numbers::pi));
  if (options_.integrate_coefficients) {
    value += IntegrateCoefficients();
  }
  if (!std::isfinite(value)) {
    return -kInfinity;
  }
  if (gradient != nullptr) {
    MarginalGradient(parameters, *gradient);
  }
  return options_.with_priors ? value + AddPriors(parameters, gradient) : value;
}

// Writes 1/2 tr((alpha alpha^T - inverse_) dA) and J^T alpha. Integrating the
// coefficients takes C C^T, with C = A^-1 J M^-1/2, off A^-1 in the trace.
void Likelihood::MarginalGradient(const Eigen::VectorXd& parameters,
                                  Eigen::VectorXd& gradient) {
  const Eigen::Index n = noise_.size();
  const double signal_variance = std::exp(parameters[dimension_count_]);
  if (options_.iid) {
    inverse_.diagonal() = a_.diagonal().cwiseInverse();
  } else {
    // A^-1 = L^-T L^-1; a_ is free to hold L^-1.
    InvertTriangle(l_.data(), static_cast<int>(n), a_.data());
    TriangularSquares(a_.data(), static_cast<int>(n), inverse_.data());
  }
  gradient.segment(dimension_count_ + 1, mean_->size()).noalias() =
      jacobian_.transpose() * alpha_;
  double trace = static_cast<double>(n);  // of inverse_ A
  if (options_.integrate_coefficients) {
    trace -= IntegratedGradient(gradient);
  }
  double by_family = 0.0;
  if (options_.family) {
    by_family = alpha_.squaredNorm() - inverse_.diagonal().sum();
    Eigen::Index pair = 0;
    for (Eigen::Index j = 0; j < n; ++j) {
      for (Eigen::Index i = j + 1; i < n; ++i) {
        by_family += 2.0 * family_pairs_[pair++] *
                     (alpha_[i] * alpha_[j] - inverse_(i, j));
      }
    }
    by_family *= FamilyVariance(parameters);
    gradient[gradient.size() - 1] = 0.5 * by_family;
  }
  if (!options_.iid) {
    // slope_ becomes the weight of each pair: the remainder of the derivative
    // is its factor (x_k - y_k)^2 / l_k^2.
    Eigen::Index pair = 0;
    for (Eigen::Index j = 0; j < n; ++j) {
      for (Eigen::Index i = j + 1; i < n; ++i) {
        slope_[pair++] *= alpha_[i] * alpha_[j] - inverse_(i, j);
      }
    }
    gradient.head(dimension_count_) =
        signal_variance *
        (pairs_.transpose() * slope_.matrix()).cwiseProduct(inverse_square_);
  }
  // dA / d log s^2 is A less the noise that is not at its floor and the
  // deviations of families, so the trace needs no kernel matrix.
  double by_signal = alpha_.dot(residual_) - trace - by_family;
  for (Eigen::Index i = 0; i < n; ++i) {
    const double noise = observations_.noise_variance[i];
    if (noise > options_.relative_noise_floor * signal_variance) {
      by_signal -= noise * (alpha_[i] * alpha_[i] - inverse_(i, i));
    }
  }
  if (options_.nugget) {
    const double by_nugget = NuggetVariance(parameters) *
                             (alpha_.squaredNorm() - inverse_.diagonal().sum());
    by_signal -= by_nugget;
    gradient[dimension_count_ + 1 + mean_->size()] = 0.5 * by_nugget;
  }
  gradient[dimension_count_] = 0.5 * by_signal;
}

// Takes C C^T off inverse_, adds what log |M| changes by the coefficients and
// returns tr(C C^T A) = m - tr(M^-1 S^-1).
double Likelihood::IntegratedGradient(Eigen::VectorXd& gradient) {
  const Eigen::Index n = noise_.size();
  const Eigen::Index m = mean_->size();
  coefficient_inverse_.setIdentity(m, m);
  coefficient_l_.triangularView<Eigen::Lower>().solveInPlace(
      coefficient_inverse_);
  whitened_.topRows(n).noalias() =
      weighted_jacobian_ * coefficient_inverse_.transpose();
  if (options_.iid) {
    inverse_.diagonal() -= whitened_.topRows(n).rowwise().squaredNorm();
  } else {
    SubtractSquares(whitened_.data(), static_cast<int>(n), static_cast<int>(m),
                    inverse_.data());
  }
  // -1/2 d log |M| / d log c_k = -sum_ij G_ij dJ_ij / d log c_k, G = A^-1 J
  // M^-1.
  const Eigen::MatrixXd weighted =
      (whitened_.topRows(n) * coefficient_inverse_).cwiseProduct(jacobian_);
  diagonal_ = weighted.rowwise().sum();
  for (Eigen::Index i = 0; i < diagonal_.size(); ++i) {
    diagonal_[i] *= mean_->Curvature(prior_mean_[i]);
  }
  auto by_coefficients = gradient.segment(dimension_count_ + 1, m);
  if (!mean_->logarithmic()) {
    by_coefficients -= weighted.colwise().sum().transpose();
  }
  by_coefficients.noalias() -= jacobian_.transpose() * diagonal_;
  return static_cast<double>(m) -
         coefficient_inverse_.colwise().squaredNorm().dot(
             coefficient_precision_);
}

double Likelihood::AddPriors(const Eigen::VectorXd& parameters,
                             Eigen::VectorXd* gradient) const {
  double sum = 0.0;
  const auto add = [&](const LogNormalPrior& prior, Eigen::Index i) {
    double derivative = 0.0;
    sum += prior.LogDensity(parameters[i], &derivative);
    if (gradient != nullptr) {
      (*gradient)[i] += derivative;
    }
  };
  for (Eigen::Index k = 0; k < dimension_count_; ++k) {
    add(priors_.length_scale, k);
  }
  add(priors_.signal_variance, dimension_count_);
  Eigen::Index i = dimension_count_ + 1;
  for (const ParametricMean::Coefficient& coefficient : mean_->coefficients) {
    add({.log_center = coefficient.log_center,
         .log_stddev = coefficient.log_stddev,
         .density_in_x = false},
        i++);
  }
  if (options_.nugget) {
    if (std::isfinite(parameters[i])) {
      add(priors_.nugget_variance, i);
    }
    ++i;
  }
  if (options_.family && std::isfinite(parameters[i])) {
    add(priors_.family_variance, i);
  }
  return sum;
}

}  // namespace surrogates
