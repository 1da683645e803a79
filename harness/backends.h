// What a backend is, and the list of backends.

#ifndef HARNESS_BACKENDS_H_
#define HARNESS_BACKENDS_H_

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "harness/spec.h"
#include "harness/testbeds/predictions.h"
#include "methods/method.h"
#include "trials/cluster.h"
#include "trials/objective.h"
#include "trials/plan.h"
#include "trials/programs/adapter.h"
#include "trials/rank_order.h"
#include "trials/search_space.h"
#include "trials/trained_job.h"
#include "trials/trial_runner.h"
#include "trials/workload.h"

namespace harness {

// Predicted cost of a configuration.
struct Expectation {
  double step_time_s = 0.0;
  double peak_memory_bytes = 0.0;
  double fit_probability = 0.0;
};

// The system that runs the trials of one problem, and its search space.
struct Backend {
  std::string type;         // "simulator", "replay", "trainer"
  std::string description;  // one line to display: model, batch, cluster
  // One line about input that is ignored or about what was assumed; "" if none.
  std::string warning;
  // Every file that the records depend on.
  std::vector<std::filesystem::path> inputs;
  bool simulated = true;  // see BackendEntry
  int gpus = 1;
  // The numbers of GPUs that candidates use, ascending; empty: `gpus`.
  std::vector<int> sizes;
  trials::Objective objective = trials::Objective::kTime;
  double price_per_gpu_hour = 0.0;  // USD; 0: unknown
  int gpus_per_node = 1;
  // Of the framework that runs the trials.
  trials::RankOrder rank_order = trials::RankOrder::kPipelineOutermost;
  double memory_capacity_bytes = 0.0;       // per GPU
  std::vector<methods::GpuType> gpu_types;  // see methods::Problem
  std::unique_ptr<trials::SearchSpace> space;
  std::unique_ptr<trials::TrialRunner> runner;  // with noise and time limit
  trials::TrialRunner* exact = nullptr;         // the inner runner, without
  // Another runner like `exact`, for another thread; empty if there is none.
  std::function<std::unique_ptr<trials::TrialRunner>()> clone_exact_runner;
  // The published tables with which predictions for this framework were
  // compared, or that there are none; empty where nothing is predicted.
  std::string validation;
  // The components of one step as a table; empty if unknown.
  std::function<std::string(const trials::ParallelConfig&)> explain;
  // The same of a plan, whose stages may differ; empty if unknown.
  // Errors: throws trials::InvalidPlan.
  std::function<std::string(const trials::Plan&)> explain_plan;
  bool runs_plans = false;                   // see methods::Problem
  std::optional<trials::Workload> workload;  // of the manifest, if any
  // Of a measured table without [workload]; see methods::Problem.
  std::function<const trials::TrainedJob*()> described;
  // Trials train [workload]. A replay reads it for predictions
  // and for methods only.
  bool trains_workload = true;
  PredictionsByName predictions;  // see methods::Problem::predict
  // What to expect of a configuration, also of one that does not fit; empty if
  // unknown.
  std::function<Expectation(const trials::ParallelConfig&)> expect;
  // True: trials run the program with the user's own settings instead of those
  // of the configuration; empty where there is no adapter.
  std::function<void(bool)> run_as_given;
  // The user's job with a configuration, with its files in the given folder;
  // empty where trials are no program.
  std::function<trials::RenderedJob(const trials::ParallelConfig&,
                                    const std::filesystem::path& files)>
      render;
  // Keeps the output of trials in the given folder; empty if there is none.
  std::function<void(const std::filesystem::path&)> keep_logs;
};

// The price of candidates as methods see it (methods::Problem::price).
[[nodiscard]] trials::RelativePrice PriceOf(const Backend& backend);

// A backend that a manifest can select.
struct BackendEntry {
  std::string name;
  std::string description;
  std::function<Backend(const ProblemSpec&)> make;
  // The clock is virtual, and the result of a trial is a function of the
  // request. Other backends need the cluster and real time.
  bool simulated = true;
};

[[nodiscard]] const std::vector<BackendEntry>& Backends();
[[nodiscard]] std::vector<std::string> BackendNames();
[[nodiscard]] const BackendEntry* FindBackend(std::string_view name);

// BackendEntry::simulated of the problem's backend; true for an unknown one.
[[nodiscard]] bool IsSimulated(const ProblemSpec& problem);

// Makes the backend of a problem and rejects unknown keys in its tables.
// Errors: throws InputError with the place in the manifest.
[[nodiscard]] Backend MakeBackend(const ProblemSpec& problem);

}  // namespace harness

#endif  // HARNESS_BACKENDS_H_
