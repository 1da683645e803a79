// What a testbed is, and the list of testbeds.

#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/spec.h"
#include "harness/testbeds/predictions.h"
#include "methods/method.h"
#include "trials/machine.h"
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
  // Every file that the records depend on.
  std::vector<std::filesystem::path> inputs;
  bool simulated = true;  // see TestbedEntry
  trials::Machine machine;
  trials::Valuation valuation;
  double gpu_power_w =
      0.0;  // under load, with its share of the host; 0: unknown
  // Of the framework that runs the trials.
  trials::RankOrder rank_order = trials::RankOrder::kPipelineOutermost;
  std::unique_ptr<trials::SearchSpace> space;
  std::unique_ptr<trials::TrialRunner> runner;  // with noise and time limit
  trials::TrialRunner* exact = nullptr;         // the inner runner, without
  bool runs_plans = false;                      // see methods::Problem
  std::optional<trials::Workload> workload;     // of the manifest, if any
  // Trials train [workload]. A replay reads it for predictions
  // and for methods only.
  bool trains_workload = true;
  // Of a measured table without [workload]; see methods::Problem.
  std::function<const trials::TrainedJob*()> described;
  PredictionsByName predictions;           // see methods::Problem::predict
  std::shared_ptr<const StepModel> model;  // of simulated trials, else null
  std::shared_ptr<ProgramJob> program;     // where trials run one, else null

  // See methods::Problem.
  [[nodiscard]] trials::Weight weight() const {
    return valuation.WeightOn(machine);
  }
};

// A testbed that a manifest can select as its backend.
struct TestbedEntry {
  std::string name;
  std::string description;
  std::function<Testbed(const ProblemSpec&)> make;
  // The clock is virtual, and the result of a trial is a function of the
  // request. Other testbeds need the cluster and real time.
  bool simulated = true;
};

[[nodiscard]] const std::vector<TestbedEntry>& TestbedTypes();
[[nodiscard]] std::vector<std::string> TestbedNames();
[[nodiscard]] const TestbedEntry* FindTestbed(std::string_view name);

// TestbedEntry::simulated of the problem's backend; true for an unknown one.
[[nodiscard]] bool IsSimulated(const ProblemSpec& problem);

// Makes the testbed of a problem and rejects unknown keys in its tables.
// Errors: throws InputError with the place in the manifest.
[[nodiscard]] Testbed MakeTestbed(const ProblemSpec& problem);

// The testbeds of problems, each made when it is first needed. Their problems
// must not move. One thread at a time may use an object.
class Testbeds {
 public:
  // Errors: as MakeTestbed.
  [[nodiscard]] Testbed& Of(const ProblemSpec& problem) const;

 private:
  mutable std::map<const ProblemSpec*, Testbed> made_;
};

}  // namespace harness
