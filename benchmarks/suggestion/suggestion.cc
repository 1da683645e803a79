// Times one suggestion: fit everything, predict all candidates, take the best.
// benchmarks/suggestion.py starts this program and gathers its lines.

#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <Eigen/Core>
#include <fmt/format.h>

#include "benchmarks/stopwatch.h"
#include "benchmarks/suggestion/arguments.h"
#include "benchmarks/suggestion/task.h"
#include "methods/acquisition.h"
#include "surrogates/cost/predicted_prior.h"
#include "surrogates/gp/gaussian_process.h"

namespace benchmarks {
namespace {

using surrogates::EncodedSpace;
using surrogates::GaussianProcess;
using surrogates::Observations;
using surrogates::ParametricMean;
using surrogates::Prediction;

struct Outcome {
  int argmax = -1;
  int evaluations = 0;         // of the likelihoods
  int memory_evaluations = 0;  // candidates whose memory was predicted
  int exact_evaluations = 0;   // of the constrained bound
  double fit_s = 0.0;
  std::string learned = "{}";
};

void Print(const Arguments& arguments, const Stopwatch& watch,
           const Outcome& outcome) {
  fmt::print(
      R"({{"case": "{}", "n": {}, "candidates": {}, "threads": {}, "wall_s": {:.6f}, "cpu_s": {:.6f}, )"
      R"("fit_s": {:.6f}, "peak_mb": {:.1f}, "argmax": {}, "evaluations": {}, )"
      R"("memories": {}, "exact": {}, "learned": {}}})"
      "\n",
      arguments.name, arguments.n, arguments.candidates, arguments.threads,
      watch.wall_s(), watch.cpu_s(), outcome.fit_s, PeakMemoryMb(),
      outcome.argmax, outcome.evaluations, outcome.memory_evaluations,
      outcome.exact_evaluations, outcome.learned);
  std::fflush(stdout);
}

// The data that a common evaluator of the likelihood needs.
std::string Learned(const GaussianProcess& process) {
  const surrogates::Hyperparameters& h = process.hyperparameters();
  std::string text = "{\"length_scales\": [";
  for (Eigen::Index k = 0; k < h.log_length_scales.size(); ++k) {
    text += fmt::format("{}{:.17g}", k > 0 ? ", " : "",
                        std::exp(h.log_length_scales[k]));
  }
  return text +
         fmt::format(
             "], \"signal_variance\": {:.17g}, \"nugget_variance\": {:.17g}, "
             "\"constant\": {:.17g}}}",
             std::exp(h.log_signal_variance), std::exp(h.log_nugget_variance),
             std::exp(h.log_coefficients[0]));
}

// The unconstrained problem that other libraries can be given too: one process
// with a constant mean, mean + 2 deviations, all candidates.
Outcome SuggestUcb(GaussianProcess& process, const Observations& observations,
                   Prediction& prediction) {
  Outcome outcome;
  const Stopwatch watch;
  outcome.evaluations = process.Fit(observations).evaluations;
  outcome.fit_s = watch.wall_s();
  process.Predict(prediction);
  (prediction.mean.array() + 2.0 * prediction.variance.array().sqrt())
      .maxCoeff(&outcome.argmax);
  outcome.learned = Learned(process);
  return outcome;
}

void TimeUcb(const Arguments& arguments, GaussianProcess::Options options) {
  const EncodedSpace space = MakeSpace(arguments.candidates);
  options.threads = arguments.threads;
  const Observations observations = Observe(
      space, MakeMean(space, kDimensions, ParametricMean::Link::kInverse),
      arguments.n, 0.3);
  GaussianProcess process(
      space,
      surrogates::ConstantMean(space.size(),
                               std::log(observations.value.mean()), 2.0),
      options);
  Prediction prediction;
  for (int i = 0; i < arguments.repeats; ++i) {
    const Stopwatch watch;
    const Outcome outcome = SuggestUcb(process, observations, prediction);
    Print(arguments, watch, outcome);
  }
}

Observations AllButLast(const Observations& observations) {
  Observations most = observations;
  most.candidate.pop_back();
  most.value.conservativeResize(most.size());
  most.noise_variance.conservativeResize(most.size());
  return most;
}

Eigen::VectorXd AtCenters(const ParametricMean& mean) {
  Eigen::VectorXd log_c(mean.size());
  for (int j = 0; j < mean.size(); ++j) {
    log_c[j] = mean.coefficients[j].log_center;
  }
  return mean.EvaluateAll(log_c);
}

// Replaces the mean of a target and its observations by those of its logarithm
// around its values as predictions, as OPPA-SIM has them. Memory has a term for
// an assumption, too.
void UsePredictions(ParametricMean& mean, Observations& observations,
                    bool memory) {
  const Eigen::VectorXd predicted = AtCenters(mean).array().log();
  // Terms that know less: half of the spread.
  mean = surrogates::PredictedMean(
      predicted, 0.5 * predicted, false, 0.0, 1.0,
      memory ? Eigen::VectorXd(predicted.cwiseAbs()) : Eigen::VectorXd());
  observations.noise_variance.array() /= observations.value.array().square();
  observations.value = observations.value.array().log();
}

// A suggestion of OPPA: throughput and memory with 35 coefficients between
// them, the constrained bound.
// `appends`: the last observation is new, hyperparameters are not learned.
void TimeOppa(const Arguments& arguments, bool appends,
              bool predicted = false) {
  const EncodedSpace space = MakeSpace(arguments.candidates);
  ParametricMean throughput_mean =
      MakeMean(space, 22, ParametricMean::Link::kInverse);
  ParametricMean memory_mean =
      MakeMean(space, 13, ParametricMean::Link::kLinear, true);
  Observations throughputs = Observe(space, throughput_mean, arguments.n, 0.1);
  Observations memories = Observe(space, memory_mean, arguments.n, 0.05);
  if (predicted) {
    UsePredictions(throughput_mean, throughputs, false);
    UsePredictions(memory_mean, memories, true);
  }
  const double capacity = memories.value.mean();
  const double scale = predicted ? 0.025 : 0.025 * capacity;
  const GaussianProcess::Options options{.threads = arguments.threads};
  GaussianProcess r(space, std::move(throughput_mean), options);
  GaussianProcess m(space, std::move(memory_mean), options);
  Prediction throughput;
  methods::AcquisitionSearch search;
  for (int i = 0; i < arguments.repeats; ++i) {
    Outcome outcome;
    if (appends) {
      r.Condition(AllButLast(throughputs), r.hyperparameters());
      m.Condition(AllButLast(memories), m.hyperparameters());
    }
    const Stopwatch watch;
    for (const auto& [process, observations] :
         {std::pair(&r, &throughputs), std::pair(&m, &memories)}) {
      outcome.evaluations +=
          appends ? process
                        ->Append(observations->candidate.back(),
                                 observations->value[arguments.n - 1],
                                 observations->noise_variance[arguments.n - 1])
                        .evaluations
                  : process->Fit(*observations).evaluations;
    }
    outcome.fit_s = watch.wall_s();
    r.Predict(throughput);
    if (predicted) {
      throughput = throughput.Exponential();
    }
    outcome.argmax =
        search.ArgMax(throughput,
                      [&](const std::vector<int>& candidates,
                          surrogates::PredictionView excess) {
                        m.PredictSome(candidates, excess);
                        methods::ToMemoryExcess(capacity, scale, excess);
                      },
                      {}, {.threads = arguments.threads});
    outcome.memory_evaluations = search.summary().memory_evaluations;
    outcome.exact_evaluations = search.summary().exact_evaluations;
    Print(arguments, watch, outcome);
  }
}

// The same numbers for programs in other languages: points.f64, a candidate
// after the other, and observations.csv.
void WriteTask(const Arguments& arguments) {
  const EncodedSpace space = MakeSpace(arguments.candidates);
  const Observations observations = Observe(
      space, MakeMean(space, kDimensions, ParametricMean::Link::kInverse),
      arguments.n, 0.3);
  const std::filesystem::path folder = arguments.folder;
  std::ofstream points(folder / "points.f64", std::ios::binary);
  points.write(
      reinterpret_cast<const char*>(space.points.data()),
      static_cast<std::streamsize>(space.points.size() * sizeof(double)));
  std::ofstream table(folder / "observations.csv");
  table << "candidate,value,noise_variance\n";
  for (int i = 0; i < observations.size(); ++i) {
    table << fmt::format("{},{:.17g},{:.17g}\n", observations.candidate[i],
                         observations.value[i], observations.noise_variance[i]);
  }
  if (!points.flush() || !table.flush()) {
    throw std::runtime_error("cannot write into " + folder.string());
  }
}

void Run(const Arguments& arguments) {
  if (arguments.name == "ucb") {
    // The likelihood alone, as the floor and most peers maximize it.
    TimeUcb(arguments, {.as_printed = true, .starts = 5, .warm_start = false});
  } else if (arguments.name == "ucb-1") {
    TimeUcb(arguments, {.as_printed = true, .starts = 1, .warm_start = false});
  } else if (arguments.name == "ucb-map") {
    TimeUcb(arguments, {.warm_start = false});
  } else if (arguments.name == "oppa") {
    TimeOppa(arguments, false);
  } else if (arguments.name == "oppa-append") {
    TimeOppa(arguments, true);
  } else if (arguments.name == "oppa-sim") {
    TimeOppa(arguments, false, true);
  } else if (arguments.name == "write-task") {
    WriteTask(arguments);
  } else {
    throw std::invalid_argument(
        "--case must be ucb, ucb-1, ucb-map, oppa, oppa-sim, oppa-append or "
        "write-task");
  }
}

}  // namespace
}  // namespace benchmarks

int main(int argc, char** argv) {
  try {
    benchmarks::Run(benchmarks::Arguments(argc, argv));
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "suggestion_benchmark: {}\n", error.what());
    return 2;
  }
}
