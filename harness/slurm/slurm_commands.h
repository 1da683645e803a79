// The commands by which jobs are given to Slurm.

#ifndef HARNESS_SLURM_SLURM_COMMANDS_H_
#define HARNESS_SLURM_SLURM_COMMANDS_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/process.h"
#include "harness/dispatcher.h"
#include "harness/slurm/slurm_options.h"

namespace harness {

// A part of the jobs that one `sbatch --array` takes. Job base + i is task i.
struct SlurmArray {
  int base = 0;
  std::vector<int> tasks;  // ascending, each below Slurm's MaxArraySize
  int nodes = 1;
  int gpus_per_node = 0;
  std::int64_t job_id = 0;  // once it is submitted
};

// Where a submission keeps its files, and what it is called.
struct SlurmPlace {
  std::filesystem::path program;    // this one
  std::filesystem::path directory;  // where tasks start
  std::filesystem::path folder;     // <experiment folder>/.slurm/<token>
  std::string experiment;
  std::string token;                   // says that a job is of this submission
  std::vector<std::string> bad_nodes;  // to be avoided
};

// One array for each set of equal needs and each stretch of `max_array_size`
// ids.
[[nodiscard]] std::vector<SlurmArray> MakeArrays(const std::vector<Job>& jobs,
                                                 int max_array_size);

// The name of an experiment's jobs.
[[nodiscard]] std::string JobName(const std::string& experiment);

// "3,17,40-42%8"; max_running 0: no '%'.
[[nodiscard]] std::string ArraySpec(const std::vector<int>& tasks,
                                    int max_running);

// The text of the script that every job runs. It holds nothing of the
// experiment: names and paths come as arguments and reach no shell.
[[nodiscard]] std::string_view TaskScript();

// sbatch for an array, and for the job that follows when all arrays are
// through.
[[nodiscard]] std::vector<std::string> SbatchArray(const SlurmOptions& options,
                                                   const SlurmPlace& place,
                                                   const SlurmArray& array);
[[nodiscard]] std::vector<std::string> SbatchFinish(
    const SlurmOptions& options,
    const SlurmPlace& place,
    const std::vector<std::int64_t>& arrays);

// sbatch for one trial (trial_jobs.h), whose folder is place.folder.
[[nodiscard]] std::vector<std::string> SbatchTrial(const SlurmOptions& options,
                                                   const SlurmPlace& place,
                                                   int nodes,
                                                   int gpus_per_node);

// The output of a task: <folder>/log/<base>-<task>.txt, "finish.txt".
[[nodiscard]] std::filesystem::path TaskLog(const std::filesystem::path& folder,
                                            int base,
                                            int task);
[[nodiscard]] std::filesystem::path FinishLog(
    const std::filesystem::path& folder);

// The environment of sbatch and so of the jobs: a short list of variables
// (PATH, HOME, LANG, OPPA_DATA, SLURM_CONF, ...) with the values of now, one
// thread for numerics, and those that are asked for. Nothing else goes in:
// SBATCH_* would overrule the manifest, SLURM_* are those of another job.
[[nodiscard]] std::vector<std::string> SlurmEnvironment(
    const std::vector<std::string>& also = {});

// The words as a line that a shell would read as those words: for people.
[[nodiscard]] std::string ShellLine(const std::vector<std::string>& words);

// MaxArraySize of the cluster; Slurm's default where nobody can say.
[[nodiscard]] int MaxArraySize();

// A folder that sbatch would take apart ('%' and '\' have a meaning in names
// of output files) cannot hold results.
// Errors: throws InputError.
void CheckFolder(const std::filesystem::path& folder);

}  // namespace harness

#endif  // HARNESS_SLURM_SLURM_COMMANDS_H_
