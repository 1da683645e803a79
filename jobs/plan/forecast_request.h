// The command `oppa plan`: from its options to its output.

#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "jobs/machine.h"
#include "jobs/plan/forecast.h"
#include "jobs/plan/launch.h"
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
  std::vector<std::string> constants;       // of the framework: "KEY=VALUE"
  int layouts = 5;                          // shown
  std::optional<std::string> why;           // a configuration, see Why
  std::vector<std::filesystem::path> logs;  // of a run, see CompareRun
  std::string step_time;                    // pattern in those logs; or ""
  std::string config;                       // of that run; "": as logged
  trials::Valuation valuation;              // the price of a GPU hour
  // What the steps of the training may cost; 0: no limit. Needs the price.
  double most_money = 0.0;
  double steps = 0.0;
  std::filesystem::path calibrate;         // empty: no calibration
  bool accept_foreign = false;             // see harness::RefuseForeign
  std::filesystem::path calibration;       // a saved one, instead
  std::filesystem::path save_calibration;  // a file for that of `calibrate`
  std::filesystem::path check;             // measured trials to compare with
  OutputFormat format = OutputFormat::kText;
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
