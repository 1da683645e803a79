// The commands of Slurm that submit and cancel jobs.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/fields.h"
#include "common/process.h"
#include "harness/dispatcher.h"
#include "harness/manifest/slurm_options.h"

namespace harness {

// The jobs of one `sbatch --array`. Job base + i is task i.
struct SlurmArray {
  int base = 0;
  std::vector<int> tasks;  // ascending, each below Slurm's MaxArraySize
  int nodes = 1;
  int gpus_per_node = 0;
  std::int64_t job_id = 0;  // 0: not submitted yet

  OPPA_FIELDS(SlurmArray, base, tasks, nodes, gpus_per_node, job_id);
};

// The folder of a submission and its name.
struct SlurmPlace {
  std::filesystem::path program;    // this one
  std::filesystem::path directory;  // where tasks start
  std::filesystem::path folder;     // <experiment folder>/.slurm/<token>
  std::string experiment;
  std::string token;                   // identifies jobs of this submission
  std::vector<std::string> bad_nodes;  // excluded
};

// One array for each set of equal resources and each range of `max_array_size`
// ids.
[[nodiscard]] std::vector<SlurmArray> MakeArrays(const std::vector<Job>& jobs,
                                                 int max_array_size);

// The name of an experiment's jobs.
[[nodiscard]] std::string JobName(const std::string& experiment);

// "3,17,40-42%8"; max_running 0: no '%'.
[[nodiscard]] std::string ArraySpec(const std::vector<int>& tasks,
                                    int max_running);

// The script that every job runs. It differs by `setup` only: names and paths
// are arguments and reach no shell.
[[nodiscard]] std::string TaskScript(const SlurmOptions& options);

// sbatch for an array, and for the job that runs after all arrays have ended.
[[nodiscard]] std::vector<std::string> SbatchArray(const SlurmOptions& options,
                                                   const SlurmPlace& place,
                                                   const SlurmArray& array);
[[nodiscard]] std::vector<std::string> SbatchFinish(
    const SlurmOptions& options, const SlurmPlace& place,
    const std::vector<std::int64_t>& arrays);

// sbatch for one trial (trial_jobs.h), whose folder is place.folder.
[[nodiscard]] std::vector<std::string> SbatchTrial(const SlurmOptions& options,
                                                   const SlurmPlace& place,
                                                   int nodes,
                                                   int gpus_per_node);

// The output of a task: <folder>/log/<base>-<task>.txt, "finish.txt".
[[nodiscard]] std::filesystem::path TaskLog(const std::filesystem::path& folder,
                                            int base, int task);
[[nodiscard]] std::filesystem::path FinishLog(
    const std::filesystem::path& folder);

// The environment of sbatch and therefore of the jobs: a short list of
// variables (PATH, HOME, LANG, OPPA_DATA, SLURM_CONF, ...) with their current
// values, one thread for numerical libraries, and the variables in `also`.
// SBATCH_* would override the manifest, and SLURM_* belong to another job.
[[nodiscard]] std::vector<std::string> SlurmEnvironment(
    const std::vector<std::string>& also = {});

// Runs a command of Slurm. One that hangs is killed after two minutes, which is
// an error that may pass.
[[nodiscard]] common::CommandResult RunSlurmCommand(
    const std::vector<std::string>& words,
    const std::vector<std::string>& environment = SlurmEnvironment());

// The answers of Slurm's commands: the id that `sbatch --parsable` prints
// ("17", or "17;cluster"), the id in a line "17|comment", and MaxArraySize of
// `scontrol show config`. 0, and Slurm's default of MaxArraySize, for any other
// text.
[[nodiscard]] std::int64_t ParseJobId(std::string_view output);
[[nodiscard]] std::int64_t FindComment(std::string_view output,
                                       std::string_view comment);
[[nodiscard]] int ParseMaxArraySize(std::string_view output);

// MaxArraySize of the cluster; Slurm's default if it is unknown.
[[nodiscard]] int MaxArraySize();

// Runs an sbatch command with a --comment that no other job has; returns the
// job's id. Retries while the controller does not answer, unless a job with
// that comment shows that the failed attempt went through. Errors: throws
// std::runtime_error with sbatch's own message and the command.
[[nodiscard]] std::int64_t Sbatch(const std::vector<std::string>& words,
                                  const std::vector<std::string>& environment);

// scancel for these jobs or tasks ("17", "17_3"), but no job that is not of the
// experiment, where it is named; its error message, or "".
std::string Cancel(const std::vector<std::string>& jobs,
                   const std::string& experiment = "");
std::string Cancel(const std::vector<std::int64_t>& job_ids,
                   const std::string& experiment = "");

// Checks that sbatch does not interpret the path: '%' and '\' have a meaning in
// names of output files.
// Errors: throws InputError.
void CheckFolder(const std::filesystem::path& folder);

}  // namespace harness
