#include "harness/testbeds/prediction_sources.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/error.h"
#include "trials/simulator/predict.h"
#include "trials/tables/replay_table.h"
#include "trials/tables/row_training.h"

namespace harness {
namespace {

// The candidates by their number of GPUs.
std::vector<SimulatedPart> PartsOf(const trials::SearchSpace& space,
                                   const trials::Machine& machine,
                                   const trials::Workload& workload,
                                   const System& system) {
  std::vector<SimulatedPart> parts;
  for (const int gpus : machine.sizes()) {
    SimulatedPart& part = parts.emplace_back();
    trials::SimulatedTraining training{
        workload, WithGpus(system.cluster, gpus), *system.framework, {}};
    for (int i = 0; i < space.size(); ++i) {
      if (machine.Uses(space[i], gpus)) {
        part.candidates.push_back(i);
        training.configs.push_back(space[i]);
      }
    }
    part.training =
        std::make_shared<const trials::SimulatedTraining>(std::move(training));
  }
  return parts;
}

// The parts of a measured scenario: rows with the same workload and machine.
std::vector<SimulatedPart> PartsOf(const trials::ReplayTable& table,
                                   const trials::ScenarioTraining& scenario) {
  std::vector<std::pair<std::vector<int>, trials::SimulatedTraining>> groups;
  for (int i = 0; i < static_cast<int>(table.rows().size()); ++i) {
    const trials::RowTraining& row = scenario.rows.at(table.rows()[i].line);
    auto group = std::find_if(
        groups.begin(), groups.end(), [&row](const auto& candidates) {
          const trials::SimulatedTraining& training = candidates.second;
          return training.workload == row.workload &&
                 training.cluster == row.cluster &&
                 training.framework == row.framework;
        });
    if (group == groups.end()) {
      group = groups.insert(
          groups.end(), {{}, {row.workload, row.cluster, row.framework, {}}});
    }
    group->first.push_back(i);
    group->second.configs.push_back(row.config);
  }
  std::vector<SimulatedPart> parts;
  for (auto& [candidates, training] : groups) {
    parts.push_back({std::move(candidates),
                     std::make_shared<trials::SimulatedTraining>(training)});
  }
  return parts;
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
                                       const trials::Workload& workload,
                                       const System& own, bool simulated,
                                       const trials::Machine& machine) {
  return [=, &space](const std::string& name) {
    const PredictionSettings settings =
        ReadPredictionSettings(problem.predictions, name);
    if (!settings.facts.empty()) {
      settings.table.Fail("facts",
                          "facts describe measured tables, and this problem "
                          "has a [workload]: remove one of them");
    }
    const System system = PredictedSystem(settings, own);
    if (simulated) {
      RejectGroundTruth(settings, system, own, workload, space);
    }
    return SimulatedSource(settings, problem.name, space, system,
                           PartsOf(space, machine, workload, system));
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
         .framework = FrameworkFile(settings).string()});
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
