// The settings of an external training program in a manifest.

#ifndef TRIALS_COMMAND_COMMAND_OPTIONS_H_
#define TRIALS_COMMAND_COMMAND_OPTIONS_H_

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/json.h"
#include "common/toml_table.h"
#include "trials/adapters/adapter.h"
#include "trials/cluster.h"
#include "trials/knobs.h"
#include "trials/trial_runner.h"
#include "trials/workload.h"

namespace trials {

// The [backend] table of type "command". Format: docs/external-trials.md.
struct CommandOptions {
  // The number of processes of the program, and how they are started.
  enum class Ranks {
    kOne,      // oppa starts one; it may start others (torchrun, mpirun)
    kPerNode,  // srun, one on each node of the cluster
    kPerGpu,   // srun, one for each GPU
  };
  KnobSet knobs = BuiltInKnobs();
  std::vector<std::string> program;      // program and arguments; no shell
  std::vector<std::string> environment;  // "NAME=value", additional
  std::filesystem::path folder;          // where it starts
  Ranks ranks = Ranks::kOne;
  std::vector<std::string> rank_wrapper;  // words ahead of those of each rank
  double timeout_s = 3600.0;              // of a trial; > 0
  double silence_s = 600.0;               // without a report: hung; > 0
  double patience_s = 10.0;               // from SIGTERM to SIGKILL; >= 0
  std::int64_t log_bytes = 1 << 20;       // of the output that is kept; > 0
  // Strings in the output that mean out of memory.
  std::vector<std::string> out_of_memory = {
      "CUDA out of memory", "OutOfMemoryError", "HIP out of memory"};
  // `framework`: renders the command line of a trial; nullptr if there is none.
  std::shared_ptr<const Adapter> adapter;
  // Of the adapter, with those of [backend.log] instead where given.
  std::shared_ptr<const LogPatterns> log;
  Workload workload;  // what the job trains; for the adapter and the log
};

// Errors: throws InputError with the place of an invalid value, of an unknown
// placeholder, and of a program that does not exist.
[[nodiscard]] CommandOptions ReadCommandOptions(
    const common::TomlTable& table, const KnobSet& knobs = BuiltInKnobs());

// The same without `program` and `ranks`, for a program that is known.
[[nodiscard]] CommandOptions ReadTrialOptions(
    const common::TomlTable& table, const KnobSet& knobs = BuiltInKnobs());

// The command line of a trial, with {FIELD} of the configuration, {max_steps},
// {seed}, {config}, {gpus}, {nodes} and {gpus_per_node} replaced, and prefixed
// with srun if there are ranks.
[[nodiscard]] std::vector<std::string> TrialWords(const CommandOptions& options,
                                                  const Cluster& cluster,
                                                  const TrialRequest& request);

// The same with what the adapter adds: flags, variables and files in the folder
// `files`, which the caller writes. `as_given`: the user's own settings instead
// of those of the configuration.
// Errors: as Adapter::Render.
[[nodiscard]] RenderedJob RenderTrial(const CommandOptions& options,
                                      const Cluster& cluster,
                                      const TrialRequest& request,
                                      const std::filesystem::path& files,
                                      bool as_given = false);

// The job with a configuration, for the user: without what only trials need.
// {max_steps} and {seed} stay. A program whose words name no parameter reads
// them from OPPA_TRIAL, which is in the environment of the job.
[[nodiscard]] RenderedJob RenderJob(const CommandOptions& options,
                                    const Cluster& cluster,
                                    const ParallelConfig& config,
                                    const std::filesystem::path& files);

// The job that the manifest describes, without a configuration.
[[nodiscard]] AdapterJob JobOf(const CommandOptions& options,
                               const Cluster& cluster);

// The value of each parameter by its name, as in OPPA_TRIAL.
[[nodiscard]] common::Json ParametersAsJson(const KnobSet& knobs,
                                            const ParallelConfig& config,
                                            int batch_size);

// The environment of a trial: that of this process without OMP_NUM_THREADS,
// then OPPA_TRIAL (the whole request as JSON), OPPA_<FIELD>, OPPA_MAX_STEPS,
// OPPA_SEED, then the variables of the manifest.
[[nodiscard]] std::vector<std::string> TrialEnvironment(
    const CommandOptions& options,
    const Cluster& cluster,
    const TrialRequest& request);

}  // namespace trials

#endif  // TRIALS_COMMAND_COMMAND_OPTIONS_H_
