// One suggestion of a model-guided method: fit two Gaussian processes, predict
// every candidate, find the best by the constrained UCB.

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <Eigen/Core>
#include <benchmark/benchmark.h>

#include "methods/acquisition.h"
#include "surrogates/gp/gaussian_process.h"

namespace {

using surrogates::EncodedSpace;
using surrogates::GaussianProcess;
using surrogates::Observations;
using surrogates::ParametricMean;
using surrogates::Prediction;

constexpr int kDimensions = 12;
constexpr int kTerms = 12;  // of the step-time model

EncodedSpace MakeSpace(int candidates) {
  std::mt19937_64 engine(1);
  EncodedSpace space;
  space.points.resize(kDimensions, candidates);
  for (double& value : space.points.reshaped()) {
    value = static_cast<double>(engine() % 5) / 4.0;
  }
  for (int k = 0; k < kDimensions; ++k) {
    space.dimensions.push_back("x" + std::to_string(k));
  }
  return space;
}

ParametricMean MakeMean(const EncodedSpace& space, int terms,
                        ParametricMean::Link link) {
  ParametricMean mean;
  mean.link = link;
  mean.features = 0.1 + space.points.topRows(terms).transpose().array();
  for (int j = 0; j < terms; ++j) {
    mean.coefficients.push_back(
        {.name = "c" + std::to_string(j), .log_stddev = 1.5});
  }
  return mean;
}

Observations Observe(const ParametricMean& mean, int count, double ripple) {
  std::mt19937_64 engine(2);
  std::normal_distribution<double> normal;
  const Eigen::VectorXd truth = mean.EvaluateAll(Eigen::VectorXd::NullaryExpr(
      mean.size(), [&] { return 0.7 * normal(engine); }));
  Observations observations;
  observations.value.resize(count);
  observations.noise_variance.resize(count);
  for (int i = 0; i < count; ++i) {
    const int candidate = static_cast<int>(engine() % 10000);
    const double stddev = 0.02 * truth[candidate];
    observations.candidate.push_back(candidate);
    observations.value[i] =
        truth[candidate] * (1.0 + ripple * std::sin(1e-3 * candidate)) +
        stddev * normal(engine);
    observations.noise_variance[i] = stddev * stddev;
  }
  return observations;
}

int ArgMax(const Prediction& throughput, const Prediction& excess,
           methods::AcquisitionSearch& search) {
  return search.ArgMax(
      throughput,
      [&](const std::vector<int>& candidates, surrogates::PredictionView some) {
        some.mean = excess.mean(candidates);
        some.variance = excess.variance(candidates);
      },
      {}, {});
}

// Arguments: observations, candidates, threads.
void BM_Suggestion(benchmark::State& state) {
  const int count = static_cast<int>(state.range(0));
  const EncodedSpace space = MakeSpace(static_cast<int>(state.range(1)));
  const ParametricMean throughput_mean =
      MakeMean(space, kTerms, ParametricMean::Link::kInverse);
  const ParametricMean memory_mean =
      MakeMean(space, 3, ParametricMean::Link::kLinear);
  const Observations throughputs = Observe(throughput_mean, count, 0.1);
  const Observations memories = Observe(memory_mean, count, 0.05);
  const GaussianProcess::Options options{.threads =
                                             static_cast<int>(state.range(2))};
  Prediction throughput;
  Prediction memory;
  std::int64_t evaluations = 0;
  methods::AcquisitionSearch search;
  for (auto _ : state) {
    GaussianProcess r(space, throughput_mean, options);
    GaussianProcess m(space, memory_mean, options);
    evaluations += r.Fit(throughputs).evaluations;
    evaluations += m.Fit(memories).evaluations;
    r.Predict(throughput);
    m.Predict(memory);
    methods::ToMemoryExcess(3.0, 0.2, memory.Head(memory.size()));
    benchmark::DoNotOptimize(ArgMax(throughput, memory, search));
  }
  state.counters["likelihoods"] = benchmark::Counter(
      static_cast<double>(evaluations), benchmark::Counter::kAvgIterations);
  state.counters["exact_cucb"] = search.summary().exact_evaluations;
}
BENCHMARK(BM_Suggestion)
    ->ArgNames({"n", "candidates", "threads"})
    ->ArgsProduct({{20, 50}, {10000, 100000}, {1, 2}})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

// Arguments: observations.
void BM_Fit(benchmark::State& state) {
  const EncodedSpace space = MakeSpace(10000);
  const ParametricMean mean =
      MakeMean(space, kTerms, ParametricMean::Link::kInverse);
  const Observations observations =
      Observe(mean, static_cast<int>(state.range(0)), 0.1);
  for (auto _ : state) {
    GaussianProcess process(space, mean, {});
    benchmark::DoNotOptimize(process.Fit(observations).log_posterior);
  }
}
BENCHMARK(BM_Fit)->ArgName("n")->Arg(10)->Arg(20)->Arg(50)->Arg(100)->Unit(
    benchmark::kMillisecond);

// Arguments: observations; 10^5 candidates.
void BM_Predict(benchmark::State& state) {
  const EncodedSpace space = MakeSpace(100000);
  const ParametricMean mean =
      MakeMean(space, kTerms, ParametricMean::Link::kInverse);
  GaussianProcess process(space, mean, {.starts = 1});
  process.Fit(Observe(mean, static_cast<int>(state.range(0)), 0.1));
  Prediction prediction;
  for (auto _ : state) {
    process.Predict(prediction);
    benchmark::DoNotOptimize(prediction.mean.data());
  }
}
BENCHMARK(BM_Predict)
    ->ArgName("n")
    ->Arg(20)
    ->Arg(50)
    ->Unit(benchmark::kMillisecond);

// Arguments: candidates.
void BM_ArgMax(benchmark::State& state) {
  std::mt19937_64 engine(3);
  std::uniform_real_distribution<double> uniform;
  const auto random = [&](double low, double high) -> Eigen::VectorXd {
    return Eigen::VectorXd::NullaryExpr(
        state.range(0), [&] { return low + (high - low) * uniform(engine); });
  };
  const Prediction throughput{random(0.1, 2.0), random(0.0, 0.1)};
  const Prediction excess{random(-5.0, 5.0), random(0.1, 2.0)};
  for (auto _ : state) {
    methods::AcquisitionSearch search;
    benchmark::DoNotOptimize(ArgMax(throughput, excess, search));
  }
}
BENCHMARK(BM_ArgMax)
    ->ArgName("candidates")
    ->Arg(10000)
    ->Arg(100000)
    ->Unit(benchmark::kMillisecond);

}  // namespace
