// What a testbed is: where trials run.

#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/prediction_source.h"
#include "harness/spec.h"
#include "methods/method.h"
#include "trials/machine.h"
#include "trials/measurement.h"
#include "trials/objective.h"
#include "trials/search_space.h"
#include "trials/trial_runner.h"
#include "trials/workload.h"

namespace harness {

class ProgramJob;
class StepModel;

// The system that runs the trials of one problem, and its search space.
struct Testbed {
  std::string type;         // "simulator", "replay", "trainer"
  std::string description;  // one line to display: model, batch, cluster
  // One line about input that is ignored or about what was assumed; "" if none.
  std::string warning;
  void Warn(const std::string& text) {
    warning += (warning.empty() || text.empty() ? "" : "; ") + text;
  }
  // Every file that the records depend on.
  std::vector<std::filesystem::path> inputs;
  bool simulated = true;  // see TestbedEntry
  trials::Machine machine;
  trials::Valuation valuation;
  double gpu_power_w =
      0.0;  // under load, with its share of the host; 0: unknown
  // The order of ranks in the framework that runs the trials.
  trials::RankOrder rank_order = trials::RankOrder::kPipelineOutermost;
  std::unique_ptr<trials::SearchSpace> space;
  std::unique_ptr<trials::TrialRunner> runner;  // with noise and time limit
  trials::TrialRunner* exact = nullptr;         // the inner runner, without
  bool runs_plans = false;                      // see methods::Problem
  std::optional<trials::Workload> workload;     // of the manifest, if any
  // Trials train [workload]. A replay reads it for predictions
  // and for methods only.
  bool trains_workload = true;
  trials::MeasurementLimits limits;  // of trials that ran elsewhere
  // The job of a measured table without [workload]; see methods::Problem.
  std::function<const trials::TrainedJob*()> described;
  std::optional<PredictedJob> predicted;   // absent where no machine is known
  PredictionsByName predictions;           // see methods::Problem::predict
  std::shared_ptr<const StepModel> model;  // of simulated trials, else null
  std::shared_ptr<ProgramJob> program;     // where trials run one, else null

  // See methods::Problem.
  [[nodiscard]] trials::Weight weight() const {
    return valuation.WeightOn(machine);
  }
};

}  // namespace harness
