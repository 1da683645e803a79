// The command `oppa plan`: from its options to its output.

#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "jobs/machine.h"
#include "jobs/plan/forecast.h"
#include "jobs/plan/launch.h"
#include "jobs/plan/purchase.h"
#include "trials/objective.h"

namespace jobs {

enum class OutputFormat { kText, kJson, kCsv };

struct ForecastRequest {
  std::string model;  // see FindModel
  trials::ModelOptions model_options;
  std::vector<std::string> training;  // "KEY=VALUE", see trials::ReadTraining
  std::filesystem::path config_file;  // of the framework, with more of that
  std::string gpus;                   // see ParseMachineSizes
  MachineOptions machine;
  int nics_per_node = 0;                // 0: those of the machine
  int batch_size = 0;                   // sequences per step, > 0
  int sequence_length = 0;              // tokens, > 0
  std::string precision;                // empty: that of config_file, else bf16
  std::vector<std::string> frameworks;  // empty: megatron-lm, torchtitan
  double headroom_percent = 10.0;       // in [0, 100)
  std::vector<std::string> rules;
  std::vector<std::string> constants;  // of the framework: "KEY=VALUE"
  int layouts = 5;                     // shown
  std::optional<std::string> why;      // a configuration, see Why
  // One or two layouts, frameworks, kinds of GPUs or clusters, see
  // ComparisonText; one is compared with the fastest configuration.
  std::vector<std::string> compare;
  std::vector<std::filesystem::path> logs;  // of a run, see CompareRun
  std::string step_time;                    // pattern in those logs; or ""
  std::string config;                       // of that run; "": as logged
  std::string price;  // of a GPU hour: "2.5", or "h100=2.5,b200=4" by --gpu
  trials::Valuation valuation;  // that price; RunPlan reads it
  // Of a training with `tokens`: what it takes on each of the --gpu
  // "h100,b200".
  TrainingAssumptions training_assumptions;
  // What the steps of the training may cost; 0: no limit. Needs the price.
  double most_money = 0.0;
  double steps = 0.0;
  std::filesystem::path calibrate;         // empty: no calibration
  bool accept_foreign = false;             // see harness::RefuseForeign
  std::filesystem::path calibration;       // a saved one, instead
  std::filesystem::path save_calibration;  // a file for that of `calibrate`
  std::filesystem::path check;             // measured trials to compare with
  std::filesystem::path html;              // where to write PlanPage; or ""
  std::filesystem::path trace;             // where to write StepTrace; or ""
  OutputFormat format = OutputFormat::kText;
  bool details = false;     // see TextStyle
  std::size_t columns = 0;  // of the terminal
  LaunchFolder write;  // the fastest configuration; no path: it is not written
  std::string train_job;  // a file or "-", see RecommendTrainJob; or ""
};

// What the command prints.
struct ForecastAnswer {
  std::string text;
  bool complete = true;  // false: nothing fits that could be written
};

// Several sizes: how the job scales. A limit on money: also the fastest
// training within it.
// Errors: throws InputError that names the option.
[[nodiscard]] ForecastAnswer RunPlan(const ForecastRequest& request);

// The job of the first framework on a machine of each size, and how it is
// forecast.
// Errors: as RunPlan.
[[nodiscard]] std::vector<Job> JobsOf(const ForecastRequest& request);
[[nodiscard]] ForecastOptions ForecastOptionsOf(const ForecastRequest& request,
                                                const Job& job);

}  // namespace jobs
