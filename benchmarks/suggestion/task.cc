#include "benchmarks/suggestion/task.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>

namespace benchmarks {
namespace {

// dp, tp, pp, DP bucket, ZeRO stage, ZeRO bucket, two overlaps, microbatches,
// chunks, overlap, checkpointing: 10.8 million combinations.
constexpr std::array<int, kDimensions> kLevels = {6, 4, 6, 7, 3, 7,
                                                  2, 2, 8, 4, 2, 2};

// Shares no factor with the number of combinations: a walk through the grid by
// this step meets each once.
constexpr std::int64_t kStep = 6'700'417;

}  // namespace

surrogates::EncodedSpace MakeSpace(int candidates) {
  if (candidates < 1 || candidates > kMaxCandidates) {
    throw std::invalid_argument("MakeSpace: 1 to 10000000 candidates");
  }
  std::int64_t combinations = 1;
  for (const int levels : kLevels) {
    combinations *= levels;
  }
  surrogates::EncodedSpace space;
  space.points.resize(kDimensions, candidates);
  for (int i = 0; i < candidates; ++i) {
    std::int64_t rest = i * kStep % combinations;
    for (int k = 0; k < kDimensions; ++k) {
      const int levels = kLevels[k];
      space.points(k, i) = static_cast<double>(rest % levels) / (levels - 1);
      rest /= levels;
    }
  }
  for (int k = 0; k < kDimensions; ++k) {
    space.dimensions.push_back("x" + std::to_string(k));
  }
  return space;
}

surrogates::ParametricMean MakeMean(const surrogates::EncodedSpace& space,
                                    int terms,
                                    surrogates::ParametricMean::Link link,
                                    bool downwards) {
  surrogates::ParametricMean mean;
  mean.link = link;
  mean.features.resize(space.size(), terms);
  for (int j = 0; j < terms; ++j) {
    Eigen::ArrayXd x = space.points.row(j % kDimensions).transpose();
    if (downwards) {
      x = 1.0 - x;
    }
    mean.features.col(j) =
        0.1 + (j < kDimensions ? x : Eigen::ArrayXd(x.square()));
    mean.coefficients.push_back(
        {.name = "c" + std::to_string(j), .log_stddev = 1.5});
  }
  return mean;
}

surrogates::Observations Observe(const surrogates::EncodedSpace& space,
                                 const surrogates::ParametricMean& mean,
                                 int count, double ripple) {
  std::mt19937_64 engine(2);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> relative(0.01, 0.05);
  const auto draw = [&](Eigen::Index size) -> Eigen::VectorXd {
    return Eigen::VectorXd::NullaryExpr(size, [&] { return normal(engine); });
  };
  const Eigen::VectorXd log_c = 0.7 * draw(mean.size());
  const Eigen::VectorXd wave = draw(kDimensions);
  surrogates::Observations observations;
  observations.value.resize(count);
  observations.noise_variance.resize(count);
  for (int i = 0; i < count; ++i) {
    observations.candidate.push_back(static_cast<int>(
        engine() % static_cast<std::uint64_t>(std::min(space.size(), 10'000))));
  }
  Eigen::VectorXd truth;
  mean.Evaluate(observations.candidate, log_c, truth, nullptr);
  for (int i = 0; i < count; ++i) {
    const int candidate = observations.candidate[i];
    const double value =
        truth[i] *
        (1.0 + ripple * std::sin(2.0 * wave.dot(space.points.col(candidate))));
    const double stddev = relative(engine) * value / std::sqrt(5.0);
    observations.value[i] = value + stddev * normal(engine);
    observations.noise_variance[i] = stddev * stddev;
  }
  return observations;
}

}  // namespace benchmarks
