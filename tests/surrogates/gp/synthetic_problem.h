// Problems with a known answer for tests of the Gaussian process.

#pragma once

#include <random>
#include <string>

#include <Eigen/Core>

#include "surrogates/encoding.h"
#include "surrogates/parametric_mean.h"
#include "surrogates/surrogate.h"

namespace tests {

// Random points on a grid of 5 levels, a throughput of inverse form with
// `terms` coefficients, and a smooth deviation from it.
struct SyntheticProblem {
  surrogates::EncodedSpace space;
  surrogates::ParametricMean mean;
  Eigen::VectorXd truth;  // at every candidate
};

inline SyntheticProblem MakeSyntheticProblem(int candidates, int dimensions,
                                             int terms, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<double> uniform;
  std::normal_distribution<double> normal;
  SyntheticProblem problem;
  problem.space.points.resize(dimensions, candidates);
  for (double& value : problem.space.points.reshaped()) {
    value = static_cast<double>(engine() % 5) / 4.0;
  }
  for (int k = 0; k < dimensions; ++k) {
    problem.space.dimensions.push_back("x" + std::to_string(k));
  }
  problem.mean.link = surrogates::ParametricMean::Link::kInverse;
  problem.mean.features.resize(candidates, terms);
  Eigen::VectorXd log_c(terms);
  for (int j = 0; j < terms; ++j) {
    const int k = j % dimensions;
    const double power = 1.0 + j / dimensions;
    problem.mean.features.col(j) =
        (0.1 + problem.space.points.row(k).array()).pow(power).transpose();
    problem.mean.coefficients.push_back({.name = "c" + std::to_string(j),
                                         .log_center = 0.0,
                                         .log_stddev = 1.0});
    log_c[j] = 0.7 * normal(engine);
  }
  problem.truth = problem.mean.EvaluateAll(log_c);
  const Eigen::VectorXd phase =
      problem.space.points.transpose() *
      Eigen::VectorXd::NullaryExpr(dimensions, [&] { return normal(engine); });
  problem.truth.array() *= 1.0 + 0.15 * (3.0 * phase.array()).sin();
  return problem;
}

// `count` noisy observations of different candidates, relative noise 2%.
inline surrogates::Observations Observe(const SyntheticProblem& problem,
                                        int count, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  surrogates::Observations observations;
  observations.value.resize(count);
  observations.noise_variance.resize(count);
  for (int i = 0; i < count; ++i) {
    const int candidate = static_cast<int>(
        engine() % static_cast<std::uint64_t>(problem.space.size()));
    const double stddev = 0.02 * problem.truth[candidate];
    observations.candidate.push_back(candidate);
    observations.value[i] = problem.truth[candidate] + stddev * normal(engine);
    observations.noise_variance[i] = stddev * stddev;
  }
  return observations;
}

}  // namespace tests
