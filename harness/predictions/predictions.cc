#include "harness/predictions/predictions.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/files.h"
#include "common/parallel.h"
#include "common/ranges.h"
#include "common/toml_table.h"
#include "harness/predictions/alternatives.h"
#include "harness/predictions/calibration.h"
#include "harness/predictions/prediction_settings.h"
#include "harness/spec.h"
#include "trials/objective.h"
#include "trials/simulator/framework.h"
#include "trials/simulator/simulate_all.h"
#include "trials/simulator/simulator.h"
#include "trials/tables/replay_table.h"
#include "trials/tables/row_training.h"

namespace harness {
namespace {

using common::InputError;
using trials::Predictions;

// The candidates by their number of GPUs.
std::vector<SimulatedPart> PartsOf(const trials::SearchSpace& space,
                                   const trials::Machine& machine,
                                   const trials::Workload& workload,
                                   const System& system) {
  std::vector<SimulatedPart> parts;
  for (const int gpus : machine.sizes()) {
    SimulatedPart& part = parts.emplace_back(SimulatedPart{
        {}, {workload, WithGpus(system.cluster, gpus), *system.framework, {}}});
    for (int i = 0; i < space.size(); ++i) {
      if (machine.Uses(space[i], gpus)) {
        part.candidates.push_back(i);
        part.training.configs.push_back(space[i]);
      }
    }
  }
  return parts;
}

// The parts of a measured scenario: rows with the same workload and machine.
std::vector<SimulatedPart> PartsOf(const trials::ReplayTable& table,
                                   const trials::ScenarioTraining& scenario) {
  std::vector<SimulatedPart> parts;
  for (int i = 0; i < static_cast<int>(table.rows().size()); ++i) {
    const trials::RowTraining& row = scenario.rows.at(table.rows()[i].line);
    auto part = std::ranges::find_if(parts, [&row](const SimulatedPart& other) {
      const trials::SimulatedTraining& training = other.training;
      return training.workload == row.workload &&
             training.cluster == row.cluster &&
             training.framework == row.framework;
    });
    if (part == parts.end()) {
      part = parts.insert(part,
                          {{}, {row.workload, row.cluster, row.framework, {}}});
    }
    part->candidates.push_back(i);
    part->training.configs.push_back(row.config);
  }
  return parts;
}

trials::Cluster Resized(const PredictionSettings& settings,
                        const trials::Cluster& cluster, int gpus) {
  try {
    return WithGpus(cluster, gpus);
  } catch (const std::invalid_argument& e) {
    settings.table.Fail("cluster",
                        fmt::format("{}; give another cluster", e.what()));
  }
}

// The machine that the settings describe, where `otherwise` is that of the
// problem: with the same number of GPUs, on as many of its own hosts as needed.
// Its inputs are those of `otherwise` and the files of the description.
// Errors: throws InputError for a file that does not exist or cannot provide
// the GPUs.
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
  if (settings.constant_rates) {
    system.cluster.intra.rates = nullptr;
  }
  for (std::filesystem::path& file : trials::PartFiles(system.cluster)) {
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

// Corrects step times; NaN stays.
void CalibrateTimes(const trials::SimulatedTraining& training,
                    const Calibration& calibration,
                    trials::SimulatedCosts& costs) {
  const CalibratedTimes times(calibration, training.configs);
  const trials::Simulator simulator(training.workload, training.cluster,
                                    {training.framework});
  for (std::size_t i = 0; i < training.configs.size(); ++i) {
    costs.peak_memory_bytes[i] *= calibration.memory;
    if (calibration.step_times > 0 && !std::isnan(costs.step_time_s[i])) {
      const trials::ParallelConfig& config = training.configs[i];
      try {
        costs.step_time_s[i] =
            times
                .Of(config, StepPartsOf(simulator.Simulate(config).time, config,
                                        training.cluster))
                .step_time_s;
      } catch (const std::invalid_argument&) {
        costs.step_time_s[i] *= calibration.factors[kComputation];
      }
    }
  }
}

Predictions PredictParts(
    const trials::SearchSpace& space,
    const std::shared_ptr<const std::vector<SimulatedPart>>& parts,
    const std::optional<Calibration>& calibration, bool another_machine) {
  const std::vector<double> unknown(static_cast<std::size_t>(space.size()),
                                    std::nan(""));
  trials::SimulatedCosts uncalibrated{unknown, unknown};
  trials::SimulatedCosts predicted = uncalibrated;
  for (const SimulatedPart& part : *parts) {
    trials::SimulatedCosts costs = PredictCosts(part.training, common::Cores());
    part.Put(costs, uncalibrated);
    if (calibration) {
      CalibrateTimes(part.training, *calibration, costs);
    }
    part.Put(costs, predicted);
  }
  Predictions predictions{
      .step_time_s = std::move(predicted.step_time_s),
      .peak_memory_bytes = std::move(predicted.peak_memory_bytes)};
  predictions.alternatives = [parts, another_machine,
                              uncalibrated = std::move(uncalibrated)] {
    auto alternatives = LinkAlternatives(*parts, uncalibrated, another_machine);
    alternatives.push_back(OtherAttention(*parts, uncalibrated));
    return alternatives;
  };
  if (calibration && calibration->memory_log_stddev > 0.0) {
    predictions.memory_log_stddev = calibration->memory_log_stddev;
  }
  return predictions;
}

// Predicts the candidates of the space by simulation; each is in exactly one
// part. One that the simulator rejects has no numbers (see SourceOf).
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
  const auto shared =
      std::make_shared<const std::vector<SimulatedPart>>(std::move(parts));
  std::optional<Calibration> calibration;
  if (!settings.calibration.empty()) {
    const trials::Workload& workload = shared->front().training.workload;
    calibration = ReadCalibration(
        settings.calibration,
        CalibratedJob::Of(workload, system.cluster, system.framework_name));
    if (!settings.accept_foreign) {
      RefuseForeign(
          calibration->Slowdown(),
          trials::GuessesOf(workload, system.cluster.gpu, *system.framework),
          settings.calibration);
    }
    model.description += calibration->note.empty()
                             ? ", calibrated"
                             : ", calibrated with another model";
    model.identity += ToToml(*calibration);
  }
  model.predict = [&space, shared, calibration,
                   another_machine = !settings.clusters.empty()] {
    return PredictParts(space, shared, calibration, another_machine);
  };
  return SourceOf(settings, problem, space, std::move(model));
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

// Throws InputError, with the reason and a remedy, if the machine is the one
// that runs the simulated trials: GPUs of the same architecture and a framework
// with the same steps, or step times that are proportional within 0.1% over a
// sample of the candidates that both can run.
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
  const char* const other = ground_truth.cluster.gpu.architecture == "hopper"
                                ? "a100-selene"
                                : "h100-infiniband";
  throw InputError(fmt::format(
      "{}: predictions of {} with the framework {} are the ground truth: {}. "
      "Name another machine in [predictions]: a cluster with other GPUs or "
      "another framework, as in cluster = \"{}\", framework = "
      "\"megatron-core\"",
      settings.table.Where(), system.cluster.gpu.name, system.framework_name,
      reason, other));
}

trials::TrainedJob JobOf(const trials::SearchSpace& space,
                         const trials::ReplayTable& table,
                         const std::filesystem::path& path,
                         const trials::TableSettings& facts) {
  const trials::ScenarioTraining scenario =
      ReadScenarioTraining(path, table.scenario(), facts, {});
  const trials::Workload& workload = scenario.rows.begin()->second.workload;
  std::vector<trials::ParallelConfig> configs;
  for (const auto& row : table.rows()) {
    const trials::RowTraining& training = scenario.rows.at(row.line);
    if (training.workload != workload) {
      throw common::InputError(fmt::format(
          "{}:{}: this row of {} trains another workload than its first row; "
          "give [workload] in the manifest",
          path.string(), row.line, table.scenario()));
    }
    configs.push_back(training.config);
    configs.back().custom = space[static_cast<int>(configs.size()) - 1].custom;
  }
  trials::TrainedJob job{workload,
                         trials::SearchSpace(std::move(configs), space.knobs()),
                         {facts.file}};
  const auto scenarios = trials::ScenariosPath(path, facts, {});
  if (!scenarios.empty()) {
    job.facts.push_back(scenarios);
  }
  return job;
}

}  // namespace

PredictionsByName SimulatedPredictions(const ProblemSpec& problem,
                                       const trials::SearchSpace& space,
                                       const PredictedJob& own,
                                       const trials::Machine& machine) {
  return [=, &space](const std::string& name) {
    const PredictionSettings settings =
        ReadPredictionSettings(problem.predictions, name);
    if (!settings.facts.empty()) {
      settings.table.Fail("facts",
                          "facts describe measured tables, and this problem "
                          "has a [workload]: remove one of them");
    }
    if (own.systems.size() > 1 && settings.clusters.empty()) {
      throw InputError(fmt::format(
          "{}: the trials have several GPU types; predictions describe one: "
          "add cluster = \"NAME\" to [predictions], or planner = \"astra\"",
          settings.table.Where()));
    }
    const auto systems = common::Map(own.systems, [&](const System& each) {
      return PredictedSystem(settings, each);
    });
    for (std::size_t i = 0; own.simulated && i < systems.size(); ++i) {
      RejectGroundTruth(settings, systems[i], own.systems[i], own.workload,
                        space);
    }
    const System& system = systems.front();
    return SimulatedSource(settings, problem.name, space, system,
                           PartsOf(space, machine, own.workload, system));
  };
}

PredictionsByName TablePredictions(const ProblemSpec& problem,
                                   const trials::SearchSpace& space,
                                   const trials::ReplayTable& table,
                                   const std::filesystem::path& path,
                                   const std::string& architecture) {
  return [=, &space](const std::string& name) {
    const PredictionSettings settings =
        ReadPredictionSettings(problem.predictions, name);
    const trials::ScenarioTraining scenario = ReadScenarioTraining(
        path, table.scenario(), FactsOf(settings, path, table.scenario()),
        {.cluster = ClusterFile(settings, architecture).string(),
         .framework = FrameworkFile(settings).string(),
         .constant_rates = settings.constant_rates});
    const trials::RowTraining& first = scenario.rows.begin()->second;
    return SimulatedSource(
        settings, problem.name, space,
        {first.cluster, nullptr,
         std::filesystem::path(first.framework_name).stem().string(),
         scenario.inputs},
        PartsOf(table, scenario));
  };
}

std::function<const trials::TrainedJob*()> DescribedJob(
    const ProblemSpec& problem, const trials::SearchSpace& space,
    const trials::ReplayTable& table, const std::filesystem::path& path) {
  struct Memo {
    bool read = false;
    std::optional<trials::TrainedJob> job;
  };
  return [=, &space,
          memo = std::make_shared<Memo>()]() -> const trials::TrainedJob* {
    if (!memo->read) {
      const auto facts =
          FindFacts(ReadPredictionSettings(problem.predictions, ""), path,
                    table.scenario());
      if (facts) {
        memo->job = JobOf(space, table, path, *facts);
      }
      memo->read = true;
    }
    return memo->job ? &*memo->job : nullptr;
  };
}

PredictionsByName Memoized(PredictionsByName predictions) {
  const auto known =
      std::make_shared<std::map<std::string, PredictionSource>>();
  return
      [known, predictions = std::move(predictions)](const std::string& name) {
        const auto found = known->find(name);
        if (found != known->end()) {
          return found->second;
        }
        PredictionSource source = predictions(name);
        const auto predicted =
            std::make_shared<std::optional<trials::Predictions>>();
        source.predict = [predicted, predict = source.predict] {
          if (!*predicted) {
            *predicted = predict();
          }
          return **predicted;
        };
        return known->emplace(name, source).first->second;
      };
}

}  // namespace harness
