#include "benchmarks/floor/floor.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "benchmarks/stopwatch.h"
#include "benchmarks/suggestion/arguments.h"
#include "benchmarks/suggestion/task.h"
#include "surrogates/gp/minimize.h"

namespace benchmarks {
namespace {

constexpr int kStarts = 5;

// The same box and spread of starts as GaussianProcess has without priors.
std::vector<surrogates::Minimum> MaximiseFromAll(const FloorData& data,
                                                 int threads) {
  const Eigen::Index d = data.points.rows();
  const double level = data.value.mean();
  const double spread = std::sqrt((data.value.array() - level).square().mean());
  Eigen::VectorXd lower(d + 2);
  Eigen::VectorXd upper(d + 2);
  lower << Eigen::VectorXd::Constant(d, std::log(0.025)),
      2.0 * std::log(1e-4 * spread), -1e3 * level;
  upper << Eigen::VectorXd::Constant(d, std::log(100.0)),
      2.0 * std::log(1e2 * spread), 1e3 * level;
  std::mt19937_64 engine(3);
  std::normal_distribution<double> normal;
  std::vector<Eigen::VectorXd> starts;
  for (int i = 0; i < kStarts; ++i) {
    Eigen::VectorXd start(d + 2);
    for (Eigen::Index k = 0; k < d; ++k) {
      start[k] = (i > 0 ? 1.7 * normal(engine) : 0.0) - 0.34;
    }
    start[d] = 2.0 * std::log(spread) + (i > 0 ? normal(engine) : 0.0);
    start[d + 1] = level;
    starts.push_back(start);
  }
  std::vector<surrogates::Minimum> ends(kStarts);
  const auto work = [&](int worker) {
    FloorLikelihood likelihood(data);
    for (int i = worker; i < kStarts; i += threads) {
      ends[i] = surrogates::Minimize(
          [&](const Eigen::VectorXd& x, Eigen::VectorXd* gradient) {
            return likelihood.Evaluate(x, gradient);
          },
          starts[i], lower, upper, 1000);
    }
  };
  std::vector<std::jthread> others;
  for (int worker = 1; worker < threads; ++worker) {
    others.emplace_back(work, worker);
  }
  work(0);
  others.clear();  // joins
  return ends;
}

void Run(const Arguments& arguments) {
  const surrogates::EncodedSpace space = MakeSpace(arguments.candidates);
  const surrogates::Observations observations = Observe(
      space,
      MakeMean(space, kDimensions, surrogates::ParametricMean::Link::kInverse),
      arguments.n, 0.3);
  FloorData data{.points = Eigen::MatrixXd(kDimensions, arguments.n),
                 .value = observations.value,
                 .noise_variance = observations.noise_variance};
  for (int i = 0; i < arguments.n; ++i) {
    data.points.col(i) = space.points.col(observations.candidate[i]);
  }
  for (int repeat = 0; repeat < arguments.repeats; ++repeat) {
    const Stopwatch watch;
    const auto ends = MaximiseFromAll(data, arguments.threads);
    const auto best = std::min_element(
        ends.begin(), ends.end(),
        [](const auto& a, const auto& b) { return a.value < b.value; });
    const double fit_s = watch.wall_s();
    FloorLikelihood likelihood(data);
    Eigen::VectorXd gradient;
    const double value = likelihood.Evaluate(best->x, &gradient);
    const int argmax = FloorArgMax(data, likelihood, best->x, space.points, 2.0,
                                   arguments.threads);
    int evaluations = 0;
    for (const auto& end : ends) {
      evaluations += end.evaluations;
    }
    fmt::print(
        R"({{"case": "floor", "n": {}, "candidates": {}, "threads": {}, "wall_s": {:.6f}, )"
        R"("cpu_s": {:.6f}, "fit_s": {:.6f}, "peak_mb": {:.1f}, "argmax": {}, "evaluations": {}, )"
        R"("exact": 0, "learned": {{"negative_log_likelihood": {:.10g}}}}})"
        "\n",
        arguments.n, arguments.candidates, arguments.threads, watch.wall_s(),
        watch.cpu_s(), fit_s, PeakMemoryMb(), argmax, evaluations, value);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace benchmarks

int main(int argc, char** argv) {
  try {
    benchmarks::Run(benchmarks::Arguments(argc, argv));
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "floor_benchmark: {}\n", error.what());
    return 2;
  }
}
