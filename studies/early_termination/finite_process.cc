#include <array>
#include <cmath>
#include <functional>
#include <numbers>
#include <random>
#include <utility>

#include <Eigen/Cholesky>

#include "studies/early_termination/repeated_search.h"
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

namespace {

using std::numbers::pi;

double Branin(const Eigen::VectorXd& u) {
  const double x = 15.0 * u[0] - 5.0;
  const double y = 15.0 * u[1];
  const double a = y - 5.1 / (4.0 * pi * pi) * x * x + 5.0 / pi * x - 6.0;
  return a * a + 10.0 * (1.0 - 1.0 / (8.0 * pi)) * std::cos(x) + 10.0;
}

double SixHumpCamel(const Eigen::VectorXd& u) {
  const double x = 4.0 * u[0] - 2.0;
  const double y = 2.0 * u[1] - 1.0;
  return (4.0 - 2.1 * x * x + x * x * x * x / 3.0) * x * x + x * y +
         (4.0 * y * y - 4.0) * y * y;
}

double Ackley(const Eigen::VectorXd& u) {
  const Eigen::ArrayXd x = 10.0 * u.array() - 5.0;
  return -20.0 * std::exp(-0.2 * std::sqrt(x.square().mean())) -
         std::exp((2.0 * pi * x).cos().mean()) + 20.0 + std::numbers::e;
}

double Hartmann3(const Eigen::VectorXd& u) {
  constexpr std::array<double, 4> kWeights = {1.0, 1.2, 3.0, 3.2};
  const Eigen::Matrix<double, 4, 3> a{{3.0, 10.0, 30.0},
                                      {0.1, 10.0, 35.0},
                                      {3.0, 10.0, 30.0},
                                      {0.1, 10.0, 35.0}};
  const Eigen::Matrix<double, 4, 3> p{{0.3689, 0.1170, 0.2673},
                                      {0.4699, 0.4387, 0.7470},
                                      {0.1091, 0.8732, 0.5547},
                                      {0.0381, 0.5743, 0.8828}};
  double sum = 0.0;
  for (Eigen::Index i = 0; i < 4; ++i) {
    const Eigen::ArrayXd apart = u - p.row(i).transpose();
    sum -= kWeights[i] *
           std::exp(-(a.row(i).transpose().array() * apart.square()).sum());
  }
  return sum;
}

Objective OnGrid(const std::string& name, int dimensions, int levels,
                 const std::function<double(const Eigen::VectorXd&)>& cost) {
  Objective objective{.name = name, .points = UnitGrid(dimensions, levels)};
  objective.values.resize(objective.points.cols());
  for (Eigen::Index i = 0; i < objective.values.size(); ++i) {
    objective.values[i] = -cost(objective.points.col(i));
  }
  const double low = objective.values.minCoeff();
  objective.values.array() -= low;
  objective.values /= objective.values.maxCoeff();
  return objective;
}

}  // namespace

std::vector<Objective> TestFunctions() {
  return {OnGrid("branin", 2, 21, Branin),
          OnGrid("six-hump-camel", 2, 21, SixHumpCamel),
          OnGrid("ackley", 2, 21, Ackley),
          OnGrid("hartmann-3", 3, 9, Hartmann3)};
}

Objective RandomFunction(const Eigen::MatrixXd& points,
                         const Eigen::MatrixXd& kernel, double rkhs_norm,
                         std::uint64_t seed) {
  constexpr int kCentres = 20;
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  Eigen::VectorXd weights = Eigen::VectorXd::Zero(kernel.rows());
  for (int j = 0; j < kCentres; ++j) {
    const auto centre = static_cast<Eigen::Index>(
        engine() % static_cast<std::uint64_t>(kernel.rows()));
    weights[centre] += normal(engine);
  }
  // |sum_j a_j k(z_j, .)|^2 = a^T K a.
  Eigen::VectorXd values = kernel * weights;
  values *= rkhs_norm / std::sqrt(weights.dot(values));
  return {.name = "rkhs", .points = points, .values = values};
}

}  // namespace studies
