#include "harness/testbeds/predictions.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "common/files.h"
#include "common/hash.h"
#include "common/parallel.h"
#include "common/text.h"
#include "trials/objective.h"
#include "trials/simulator/framework.h"
#include "trials/simulator/predict.h"

namespace harness {
namespace {

using common::InputError;
using trials::Predictions;

trials::Cluster Resized(const PredictionSettings& settings,
                        const trials::Cluster& cluster, int gpus) {
  try {
    return WithGpus(cluster, gpus);
  } catch (const std::invalid_argument& e) {
    settings.table.Fail("cluster",
                        fmt::format("{}; give another cluster", e.what()));
  }
}

// The geometric mean of the values that are not NaN; NaN if none is.
double MeanOfKnown(const std::vector<double>& values,
                   const std::vector<int>& members) {
  double sum = 0.0;
  int known = 0;
  for (const int i : members) {
    const double value = values[i];
    if (!std::isnan(value)) {
      sum += std::log(value);
      ++known;
    }
  }
  return std::exp(sum / known);
}

// Gives candidates without a prediction, NaN, the mean of their cell, or of all
// candidates. Returns their number.
int FillRejected(const trials::SearchSpace& space,
                 std::vector<double>& values) {
  std::vector<int> all(values.size());
  std::iota(all.begin(), all.end(), 0);
  const double mean = MeanOfKnown(values, all);
  int rejected = 0;
  for (const std::vector<int>& cell : space.cells()) {
    const double mean_of_cell = MeanOfKnown(values, cell);
    for (const int i : cell) {
      double& value = values[i];
      if (std::isnan(value)) {
        value = std::isnan(mean_of_cell) ? mean : mean_of_cell;
        ++rejected;
      }
    }
  }
  return rejected;
}

// A random permutation of 0 ... size - 1: Fisher and Yates' shuffle, written
// out because std::shuffle differs between libraries.
std::vector<std::size_t> Permutation(std::size_t size, std::uint64_t seed) {
  std::vector<std::size_t> order(size);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 random(seed);
  for (std::size_t i = size; i > 1; --i) {
    std::swap(order[i - 1], order[random() % i]);
  }
  return order;
}

void Permute(const std::vector<std::size_t>& order,
             std::vector<double>& values) {
  std::vector<double> permuted(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    permuted[i] = values[order[i]];
  }
  values = std::move(permuted);
}

// What the settings change about the predictions, for display: "; memory x
// 0.5".
std::string Changes(const PredictionSettings& settings) {
  std::string text;
  if (settings.time_factor != 1.0) {
    text += fmt::format("; time x {}", settings.time_factor);
  }
  if (settings.memory_factor != 1.0) {
    text += fmt::format("; memory x {}", settings.memory_factor);
  }
  if (settings.permute) {
    text += "; permuted";
  }
  return text;
}

Predictions PredictParts(const trials::SearchSpace& space,
                         const std::vector<SimulatedPart>& parts) {
  const auto size = static_cast<std::size_t>(space.size());
  Predictions predictions{.step_time_s = std::vector(size, std::nan("")),
                          .peak_memory_bytes = std::vector(size, std::nan(""))};
  for (const SimulatedPart& part : parts) {
    const trials::SimulatedCosts costs =
        PredictCosts(*part.training, common::Cores());
    for (std::size_t i = 0; i < part.candidates.size(); ++i) {
      const auto at = static_cast<std::size_t>(part.candidates[i]);
      predictions.step_time_s[at] = costs.step_time_s[i];
      predictions.peak_memory_bytes[at] = costs.peak_memory_bytes[i];
    }
  }
  return predictions;
}

// The largest ratio of the step times of two machines over the smallest one,
// over candidates that both can run, evenly spaced in the space; infinite for
// fewer than two.
double SpreadOfRatios(const System& a, const System& b,
                      const trials::Workload& workload,
                      const trials::SearchSpace& space) {
  constexpr std::size_t kMost = 64;
  const std::vector<trials::ParallelConfig>& all = space.configs();
  const std::size_t count = std::min(all.size(), kMost);
  // By number of GPUs.
  std::map<int, std::vector<trials::ParallelConfig>> samples;
  for (std::size_t i = 0; i < count; ++i) {
    const trials::ParallelConfig& config = all[i * all.size() / count];
    samples[trials::GpusOf(config)].push_back(config);
  }
  const auto times = [&](const System& system) {
    std::vector<double> times_s;
    for (const auto& [gpus, sample] : samples) {
      const std::vector<double> part =
          trials::PredictCosts({workload, WithGpus(system.cluster, gpus),
                                *system.framework, sample},
                               common::Cores())
              .step_time_s;
      times_s.insert(times_s.end(), part.begin(), part.end());
    }
    return times_s;
  };
  const std::vector<double> times_a = times(a);
  const std::vector<double> times_b = times(b);
  double lowest = std::numeric_limits<double>::infinity();
  double highest = 0.0;
  int compared = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double ratio = times_a[i] / times_b[i];
    if (!std::isnan(ratio)) {
      lowest = std::min(lowest, ratio);
      highest = std::max(highest, ratio);
      ++compared;
    }
  }
  return compared < 2 ? std::numeric_limits<double>::infinity()
                      : highest / lowest;
}

}  // namespace

System PredictedSystem(const PredictionSettings& settings,
                       const System& otherwise) {
  System system = otherwise;
  const auto cluster =
      ClusterFile(settings, otherwise.cluster.gpu.architecture);
  if (!cluster.empty()) {
    system.cluster = Resized(settings, trials::ReadCluster(cluster),
                             otherwise.cluster.gpus());
    system.inputs.push_back(cluster);
  }
  for (std::filesystem::path& file : trials::GpuFiles(system.cluster.gpu)) {
    system.inputs.push_back(std::move(file));
  }
  const auto framework = FrameworkFile(settings);
  if (!framework.empty()) {
    system.framework =
        std::make_shared<trials::Framework>(trials::ReadFramework(framework));
    system.framework_name = framework.stem().string();
    system.inputs.push_back(framework);
  }
  return system;
}

void RejectGroundTruth(const PredictionSettings& settings, const System& system,
                       const System& ground_truth,
                       const trials::Workload& workload,
                       const trials::SearchSpace& space) {
  constexpr double kProportional = 1.001;
  std::string reason;
  if (system.cluster.gpu.architecture ==
          ground_truth.cluster.gpu.architecture &&
      HasSameSteps(*system.framework, *ground_truth.framework)) {
    reason = "the same simulator runs the trials";
  } else if (SpreadOfRatios(system, ground_truth, workload, space) <
             kProportional) {
    reason = "their step times are proportional to those of the trials";
  } else {
    return;
  }
  throw InputError(fmt::format(
      "{}: predictions of {} with the framework {} are the ground truth: {}. "
      "Name another machine in [predictions]: a cluster with other GPUs or "
      "another framework, as in cluster = \"h100-infiniband\", framework = "
      "\"megatron-core\"",
      settings.table.Where(), system.cluster.gpu.name, system.framework_name,
      reason));
}

PredictionSource SourceOf(const PredictionSettings& settings,
                          const std::string& problem,
                          const trials::SearchSpace& space,
                          PredictingModel model) {
  PredictionSource source;
  source.description = model.description + Changes(settings);
  source.identity =
      fmt::format("memory {}\ntime {}\npermute {}\n{}",
                  common::ExactText(settings.memory_factor),
                  common::ExactText(settings.time_factor),
                  settings.permute ? problem : "", model.identity);
  source.predict = [settings, problem, &space, model = std::move(model),
                    description = source.description] {
    Predictions predictions = model.predict();
    for (double& time_s : predictions.step_time_s) {
      time_s *= settings.time_factor;
    }
    for (double& bytes : predictions.peak_memory_bytes) {
      bytes *= settings.memory_factor;
    }
    const int missing = FillRejected(space, predictions.step_time_s);
    FillRejected(space, predictions.peak_memory_bytes);
    if (missing == space.size()) {
      throw InputError(
          fmt::format("{}: {}", settings.table.Where(), model.if_all_missing));
    }
    predictions.source = description;
    if (missing > 0) {
      predictions.source += fmt::format("; {} of {} candidates {}", missing,
                                        space.size(), model.missing);
    }
    if (settings.permute) {
      const auto order =
          Permutation(static_cast<std::size_t>(space.size()),
                      common::DeriveSeed("predictions/" + problem));
      Permute(order, predictions.step_time_s);
      Permute(order, predictions.peak_memory_bytes);
    }
    return predictions;
  };
  return source;
}

PredictionSource SimulatedSource(const PredictionSettings& settings,
                                 const std::string& problem,
                                 const trials::SearchSpace& space,
                                 const System& system,
                                 std::vector<SimulatedPart> parts) {
  PredictingModel model;
  model.description = fmt::format(
      "simulator of {} ({} x {}), {}", system.cluster.name,
      system.cluster.gpus(), system.cluster.gpu.name, system.framework_name);
  for (const std::filesystem::path& file : system.inputs) {
    model.identity += fmt::format("file {}\n{}", file.filename().string(),
                                  common::ReadFile(file));
  }
  model.missing = "are invalid there";
  model.if_all_missing = fmt::format(
      "the predicted machine ({}) runs none of the candidates; "
      "name another one",
      model.description + Changes(settings));
  model.predict = [&space, parts = std::move(parts)] {
    return PredictParts(space, parts);
  };
  return SourceOf(settings, problem, space, std::move(model));
}

}  // namespace harness
