#include "studies/early_termination/finite_process.h"

#include <cmath>
#include <numbers>
#include <random>
#include <utility>

#include <Eigen/Cholesky>

#include "surrogates/gp/kernel.h"

namespace studies {

FiniteProcess::FiniteProcess(Eigen::MatrixXd covariance)
    : mean_(Eigen::VectorXd::Zero(covariance.rows())),
      covariance_(std::move(covariance)) {}

double FiniteProcess::stddev(int candidate) const {
  // Rounding can push the variance at an observed point below zero.
  return std::sqrt(std::fmax(covariance_(candidate, candidate), 0.0));
}

void FiniteProcess::Observe(int candidate, double value,
                            double noise_variance) {
  const Eigen::VectorXd column = covariance_.col(candidate);
  const double variance = std::fmax(column[candidate], 0.0);
  information_gain_ += 0.5 * std::log1p(variance / noise_variance);
  mean_ += column * ((value - mean_[candidate]) / (variance + noise_variance));
  covariance_.noalias() -=
      column * (column.transpose() / (variance + noise_variance));
}

Eigen::MatrixXd MaternMatrix(const Eigen::MatrixXd& points,
                             double length_scale) {
  const Eigen::Index n = points.cols();
  Eigen::MatrixXd matrix(n, n);
  Eigen::ArrayXd column(n);
  for (Eigen::Index j = 0; j < n; ++j) {
    column = (points.colwise() - points.col(j))
                 .colwise()
                 .squaredNorm()
                 .transpose()
                 .array() /
             (length_scale * length_scale);
    surrogates::MaternCorrelation(column, column, nullptr);
    matrix.col(j) = column;
  }
  return matrix;
}

Eigen::MatrixXd Draw(const FiniteProcess& process, int draws,
                     std::uint64_t seed) {
  constexpr double kJitter = 1e-9;  // the posterior is nearly singular
  Eigen::MatrixXd covariance = process.covariance();
  const Eigen::Index n = covariance.rows();
  covariance.diagonal().array() += kJitter;
  const Eigen::LLT<Eigen::MatrixXd> factor(covariance);
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  Eigen::MatrixXd white(n, draws);
  for (double& value : white.reshaped()) {
    value = normal(engine);
  }
  return (factor.matrixL() * white).colwise() + process.mean();
}

Eigen::VectorXd MaximumInformationGain(const Eigen::MatrixXd& covariance,
                                       double noise_variance, int rounds) {
  FiniteProcess process(covariance);
  Eigen::VectorXd gain(rounds);
  for (int i = 0; i < rounds; ++i) {
    int best = 0;
    process.covariance().diagonal().maxCoeff(&best);
    process.Observe(best, 0.0, noise_variance);
    gain[i] = process.information_gain() / (1.0 - 1.0 / std::numbers::e);
  }
  return gain;
}

Eigen::MatrixXd UnitGrid(int dimensions, int levels) {
  Eigen::Index size = 1;
  for (int k = 0; k < dimensions; ++k) {
    size *= levels;
  }
  Eigen::MatrixXd points(dimensions, size);
  for (Eigen::Index i = 0; i < size; ++i) {
    Eigen::Index rest = i;
    for (int k = 0; k < dimensions; ++k) {
      points(k, i) = static_cast<double>(rest % levels) / (levels - 1);
      rest /= levels;
    }
  }
  return points;
}

}  // namespace studies
