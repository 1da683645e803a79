// The files of a submission to Slurm. With them, any process on any machine can
// find out later what was submitted and how it ended.
//
//   results/<experiment>/.slurm/<token>/
//       submission.json        options, arrays with their job ids
//       tasks.jsonl            a line per job: its command
//       task.sh                the script that every job runs
//       attempts/<id>.json     how the last start of a job went
//       log/<base>-<task>.txt  its output; log/finish.txt
//
// A token begins with the time of the submission, so that names sort by age.

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/fields.h"
#include "harness/dispatcher.h"
#include "harness/manifest/slurm_options.h"
#include "harness/slurm/slurm_commands.h"

namespace harness {

struct SlurmSubmission {
  SlurmPlace place;
  SlurmOptions options;
  std::vector<SlurmArray> arrays;
  std::int64_t finish_job_id = 0;   // 0: none yet
  bool cancelled = false;           // by `oppa cancel`
  std::vector<std::string> report;  // command; empty: no report

  // The ids of all jobs that are submitted so far.
  [[nodiscard]] std::vector<std::int64_t> JobIds() const;
};

// The folder of the run that a job executes.
[[nodiscard]] inline std::filesystem::path RunFolderOf(const Job& job) {
  return job.log.parent_path();
}

// A job as it was submitted.
struct SlurmTask {
  Job job;
  int failures = 0;  // of the machine, in earlier submissions
  int trials = 0;    // on record when it was submitted
};

// The outcome of one start of a job, as the job itself recorded it.
struct SlurmAttempt {
  enum class State {
    kRunning,  // or it was killed
    kDone,
    kTimeLimit,  // stopped before the end, shortly before the time limit
    kStopped,    // stopped before the end, by a signal
    kLost,       // another process writes these records
    kFailed,     // the fault of the machine, or unknown
    kRefused,    // bad input or a defect: the next attempt would fail too
  };
  State state = State::kRunning;
  std::string message;  // one line
  std::string host;
  std::string node;  // its name in Slurm
  std::string job;   // Slurm's id of this attempt
  std::int64_t pid = 0;

  OPPA_FIELDS(SlurmAttempt, state, message, host, node, job, pid);
};

// <experiment folder>/.slurm
[[nodiscard]] std::filesystem::path SlurmFolder(
    const std::filesystem::path& experiment_folder);

// A new token: the time and random digits.
[[nodiscard]] std::string NewToken();

void WriteSubmission(const SlurmSubmission& submission);
// Errors: throw InputError for a file that cannot be parsed.
[[nodiscard]] SlurmSubmission ReadSubmission(
    const std::filesystem::path& folder);
// All submissions, oldest first, except those that were interrupted.
[[nodiscard]] std::vector<SlurmSubmission> ReadSubmissions(
    const std::filesystem::path& experiment_folder);

void WriteTasks(const std::filesystem::path& folder,
                const std::vector<SlurmTask>& tasks);
[[nodiscard]] std::vector<SlurmTask> ReadTasks(
    const std::filesystem::path& folder);
// Reads one submission without parsing the others.
[[nodiscard]] SlurmTask ReadTask(const std::filesystem::path& folder, int id);

void WriteAttempt(const std::filesystem::path& folder, int id,
                  const SlurmAttempt& attempt);
[[nodiscard]] std::optional<SlurmAttempt> ReadAttempt(
    const std::filesystem::path& folder, int id);

}  // namespace harness
