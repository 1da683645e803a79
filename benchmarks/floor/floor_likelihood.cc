#include <cmath>
#include <numbers>

#include <Eigen/Cholesky>

#include "benchmarks/floor/floor.h"

namespace benchmarks {

FloorLikelihood::FloorLikelihood(const FloorData& data) : data_(&data) {
  const Eigen::Index n = data.points.cols();
  pairs_.resize(n * (n - 1) / 2, data.points.rows());
  Eigen::Index pair = 0;
  for (Eigen::Index j = 0; j < n; ++j) {
    for (Eigen::Index i = j + 1; i < n; ++i) {
      pairs_.row(pair++) = (data.points.col(i) - data.points.col(j))
                               .array()
                               .square()
                               .transpose();
    }
  }
  distance_.resize(pair);
  slope_.resize(pair);
  l_.setZero(n, n);
  inverse_factor_.setZero(n, n);
  inverse_.setZero(n, n);
}

double FloorLikelihood::Evaluate(const Eigen::VectorXd& parameters,
                                 Eigen::VectorXd* gradient) {
  const Eigen::Index n = data_->points.cols();
  const Eigen::Index d = data_->points.rows();
  const double signal_variance = std::exp(parameters[d]);
  inverse_square_ = (-2.0 * parameters.head(d).array()).exp();
  distance_.matrix().noalias() = pairs_ * inverse_square_;
  double* distance = distance_.data();
  double* slope = slope_.data();
  for (Eigen::Index p = 0; p < distance_.size(); ++p) {
    const double a = std::sqrt(5.0 * distance[p]);
    const double e = signal_variance * std::exp(-a);
    slope[p] = (5.0 / 3.0) * (1.0 + a) * e;
    distance[p] = (1.0 + a + a * a / 3.0) * e;
  }
  for (Eigen::Index j = 0, p = 0; j < n; ++j) {
    l_(j, j) = signal_variance + data_->noise_variance[j];
    for (Eigen::Index i = j + 1; i < n; ++i) {
      l_(i, j) = distance[p++];
    }
  }
  Eigen::LLT<Eigen::Ref<Eigen::MatrixXd>> factorisation(l_);
  residual_ = data_->value.array() - parameters[d + 1];
  alpha_ = residual_;
  l_.triangularView<Eigen::Lower>().solveInPlace(alpha_);
  l_.triangularView<Eigen::Lower>().transpose().solveInPlace(alpha_);
  inverse_factor_.setIdentity();
  l_.triangularView<Eigen::Lower>().solveInPlace(inverse_factor_);
  inverse_.setZero();
  inverse_.selfadjointView<Eigen::Lower>().rankUpdate(
      inverse_factor_.transpose());
  double by_signal = 0.0;
  for (Eigen::Index j = 0, p = 0; j < n; ++j) {
    by_signal += signal_variance * (alpha_[j] * alpha_[j] - inverse_(j, j));
    for (Eigen::Index i = j + 1; i < n; ++i, ++p) {
      const double weight = alpha_[i] * alpha_[j] - inverse_(i, j);
      by_signal += 2.0 * weight * distance[p];
      slope[p] *= weight;
    }
  }
  gradient->resize(d + 2);
  gradient->head(d).noalias() = -(pairs_.transpose() * slope_.matrix());
  gradient->head(d).array() *= inverse_square_.array();
  (*gradient)[d] = -0.5 * by_signal;
  (*gradient)[d + 1] = -alpha_.sum();
  return 0.5 *
         (residual_.dot(alpha_) + 2.0 * l_.diagonal().array().log().sum() +
          static_cast<double>(n) * std::log(2.0 * std::numbers::pi));
}

}  // namespace benchmarks
