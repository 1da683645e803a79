#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>
#include <vector>

#include "benchmarks/floor/floor.h"

namespace benchmarks {
namespace {

constexpr Eigen::Index kBlock = 256;  // candidates at a time

struct Best {
  double value = -1e300;
  int candidate = -1;
};

// The data that every block needs. 5 r^2 of all points and candidates is one
// product: [-10 x, 5 |x|^2, 5] times [z; 1; |z|^2].
struct Model {
  Eigen::VectorXd inverse_scale;   // [d]
  Eigen::MatrixXd points;          // [n, d + 2]
  Eigen::MatrixXd inverse_factor;  // s^2 L^-1, [n, n]
  Eigen::VectorXd weights;         // s^2 alpha, [n]
  double signal_variance = 0.0;
  double constant = 0.0;
  double beta = 0.0;
};

struct Buffers {
  Eigen::MatrixXd augmented, k, v;
};

void Correlate(double* values, Eigen::Index size) {
  for (Eigen::Index i = 0; i < size; ++i) {
    const double square = std::max(values[i], 0.0);
    const double a = std::sqrt(square);
    values[i] = (1.0 + a + square * (1.0 / 3.0)) * std::exp(-a);
  }
}

void Visit(const Model& model, const Eigen::MatrixXd& candidates,
           Eigen::Index begin, Eigen::Index count, Buffers& buffers,
           Best& best) {
  const Eigen::Index d = candidates.rows();
  auto augmented = buffers.augmented.leftCols(count);
  auto k = buffers.k.leftCols(count);
  auto v = buffers.v.leftCols(count);
  augmented.topRows(d) =
      model.inverse_scale.asDiagonal() * candidates.middleCols(begin, count);
  augmented.row(d).setOnes();
  augmented.row(d + 1) = augmented.topRows(d).colwise().squaredNorm();
  k.noalias() = model.points * augmented;
  Correlate(buffers.k.data(), model.points.rows() * count);
  v.noalias() = model.inverse_factor.triangularView<Eigen::Lower>() * k;
  for (Eigen::Index t = 0; t < count; ++t) {
    const double mean = model.constant + model.weights.dot(k.col(t));
    const double variance =
        std::max(model.signal_variance - v.col(t).squaredNorm(), 0.0);
    const double value = mean + model.beta * std::sqrt(variance);
    if (value > best.value) {
      best = {value, static_cast<int>(begin + t)};
    }
  }
}

}  // namespace

int FloorArgMax(const FloorData& data, const FloorLikelihood& likelihood,
                const Eigen::VectorXd& parameters,
                const Eigen::MatrixXd& candidates, double beta, int threads) {
  const Eigen::Index n = data.points.cols();
  const Eigen::Index d = data.points.rows();
  Model model;
  model.signal_variance = std::exp(parameters[d]);
  model.constant = parameters[d + 1];
  model.beta = beta;
  model.inverse_scale = (-parameters.head(d).array()).exp();
  const Eigen::MatrixXd scaled = model.inverse_scale.asDiagonal() * data.points;
  model.points.resize(n, d + 2);
  model.points.leftCols(d) = -10.0 * scaled.transpose();
  model.points.col(d) = 5.0 * scaled.colwise().squaredNorm().transpose();
  model.points.col(d + 1).setConstant(5.0);
  model.inverse_factor.setIdentity(n, n);
  likelihood.cholesky().triangularView<Eigen::Lower>().solveInPlace(
      model.inverse_factor);
  model.inverse_factor *= model.signal_variance;
  model.weights = model.signal_variance * likelihood.alpha();

  std::atomic<Eigen::Index> next = 0;
  std::vector<Best> bests(threads);
  const auto work = [&](std::size_t worker) {
    Buffers buffers{Eigen::MatrixXd(d + 2, kBlock), Eigen::MatrixXd(n, kBlock),
                    Eigen::MatrixXd(n, kBlock)};
    for (Eigen::Index begin = next.fetch_add(kBlock); begin < candidates.cols();
         begin = next.fetch_add(kBlock)) {
      Visit(model, candidates, begin,
            std::min(kBlock, candidates.cols() - begin), buffers,
            bests[worker]);
    }
  };
  {
    std::vector<std::jthread> others;
    for (int worker = 1; worker < threads; ++worker) {
      others.emplace_back(work, static_cast<std::size_t>(worker));
    }
    work(0);
  }
  return std::max_element(
             bests.begin(), bests.end(),
             [](const Best& a, const Best& b) { return a.value < b.value; })
      ->candidate;
}

}  // namespace benchmarks
