// Writes the manifest of a search for a training job.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "jobs/tune/manifest_draft.h"
#include "jobs/tune/tune_nodes.h"
#include "trials/model.h"

namespace jobs {

struct InitOptions {
  std::vector<std::string> command;  // the user's command line
  std::filesystem::path folder;      // in which it is typed; absolute
  std::filesystem::path manifest;    // the file to be written
  std::string framework;             // an adapter; "": none
  std::string model;                 // config.json, relative to `folder`
  trials::ModelOptions model_options;
  std::vector<std::string> training;  // "KEY=VALUE", see trials::ReadTraining
  std::string gpus;                   // "2x8"; "": as detected
  double memory_gib = 0.0;            // of a device; 0: as detected
  std::string gpu;                    // "h100"; "": as detected
  std::string cluster;                // a cluster file or ""
  std::string calibration;            // a saved one of predictions, or ""
  // Results of earlier jobs, whose trials predict instead of the simulator.
  std::vector<std::string> from;
  bool accept_foreign = false;  // either of them; see harness::RefuseForeign
  int batch = 0;                // 0: as the command line says
  int sequence = 0;
  std::string start;  // the present configuration; "": as the adapter reads it
  std::string next;   // tried after `start`; "": none
  std::string step_time;  // pattern of seconds in the log; "": the adapter's
  std::vector<std::string> vary;  // "zero_stage=0,1", "tp"; empty: all
  std::vector<std::string> fix;   // "tp=2"
  double price = 0.0;             // USD of a GPU hour; 0: unknown
  double power_w = 0.0;           // of a GPU; 0: unknown
  int minutes = 30;  // of the search and of the repeated measurements
  int trials = 24;
  int steps = 20;
  NodeOptions nodes;
};

// The commented manifest. Its search starts from the job's present
// configuration and varies the parameters that the adapter sets or that are
// placeholders of the command line. Its prior is the simulator, for the
// usual host of the GPU or for ranks on a CPU. `vary` and `fix` narrow its
// space: a parameter that they do not name varies, too, unless `vary` names
// some, and otherwise has its present value; dp follows from the other sizes.
// Errors: throws InputError for what the command line does not say and the
// options lack, with the option to give; for a job in which nothing can vary;
// for a parameter that it does not set.
[[nodiscard]] ManifestDraft DraftManifest(const InitOptions& options);

}  // namespace jobs
