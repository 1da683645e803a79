// A runner that submits every trial to Slurm as a separate job, and the files
// of such a trial:
//
//   <run folder>/jobs/<hash of the request without its time limit>/
//       trial.json          the request, and where the problem is described
//       job.json            the job that was submitted for it
//       result-<job>.json   its measurement, or why there is none
//       task.sh, log.txt

#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/fields.h"
#include "harness/dispatcher.h"
#include "harness/manifest/slurm_options.h"
#include "harness/slurm/retry_policy.h"
#include "harness/slurm/slurm_commands.h"
#include "harness/slurm/slurm_queue.h"
#include "trials/measurement.h"
#include "trials/trial_runner.h"

namespace harness {

// The folder, below the experiment's, of measurements outside of the search.
inline constexpr const char* kChecksFolder = "checks";

struct TrialCheck {
  bool yours = false;  // of the user's own job, as it is
  int round = 0;       // tells measurements of a configuration apart

  OPPA_FIELDS(TrialCheck, yours, round);
};

struct TrialTask {
  std::filesystem::path manifest;
  std::vector<std::string> settings;  // of the manifest: ManifestOverrides
  std::string problem;                // its name in the manifest
  int time_minutes = 0;               // Slurm's limit; 0: unknown
  // ParallelConfig::custom of the request; absent: all are 0.
  std::optional<std::vector<int>> custom = std::nullopt;
  std::optional<TrialCheck> check = std::nullopt;
  trials::TrialRequest request;  // on_step applies stop_rule and nothing else

  OPPA_FIELDS(TrialTask, manifest, settings, problem, time_minutes, custom,
              check, request);
};

struct TrialJob {
  std::int64_t id = 0;  // 0: none is submitted
  int failures = 0;     // of the machine, before this job
  std::vector<std::string> bad_nodes;

  OPPA_FIELDS(TrialJob, id, failures, bad_nodes);
};

// A measurement, or the reason why there is none.
struct TrialResult {
  std::optional<trials::Measurement> measurement;
  std::string refusal;  // bad input, no such program: a retry cannot help

  OPPA_FIELDS(TrialResult, refusal, measurement);
};

// <run folder>/jobs
[[nodiscard]] std::filesystem::path TrialJobsFolder(
    const std::filesystem::path& run_folder);

// Numbers survive writing and reading exactly.
// Errors: throw InputError when the file cannot be understood; return nothing
// if there is no file.
[[nodiscard]] TrialTask ReadTrialTask(const std::filesystem::path& folder);
[[nodiscard]] std::optional<TrialJob> ReadTrialJob(
    const std::filesystem::path& folder);
[[nodiscard]] std::optional<TrialResult> ReadTrialResult(
    const std::filesystem::path& folder, std::int64_t job);

void WriteTrialTask(const std::filesystem::path& folder, const TrialTask& task);
void WriteTrialJob(const std::filesystem::path& folder, const TrialJob& job);
// Does not overwrite a result that another attempt of the job has written.
void WriteTrialResult(const std::filesystem::path& folder, std::int64_t job,
                      const TrialResult& result);

// Submits a trial and waits for its result or for its end in the queue
// (one squeue call for all searches of the experiment, slurm_queue.h). The job,
// `oppa run-task FOLDER trial`, uses the backend of the problem, so the
// measurement equals that of a local trial. Time in the queue does not count as
// search time.
//
// If an earlier start of the search has submitted the trial, Run waits for that
// job, and cancels any other job that the earlier start left when
// `in_flight` trials have begun. As many threads may call Run at once. After
// failures of the machine it submits the trial again (retry_policy.h). Slurm's
// time limit is kTimedOut, and out of host memory is kFailed: both are data.
//
// Errors: Run throws TrialInterrupted when the search has to stop or the job
// was cancelled, and std::runtime_error when the job cannot be run.
class TrialJobs final : public trials::TrialRunner {
 public:
  // What the jobs of a run have in common. All paths are absolute.
  struct Search {
    SlurmPlace place;  // complete except for the folder and the token
    SlurmOptions options;
    std::filesystem::path experiment_folder;
    std::filesystem::path run_folder;
    Job needs;          // nodes and GPUs of a trial
    int in_flight = 1;  // trials that run at once, > 0
    TrialTask task;     // complete except for the request
    Note note;
  };

  // `local`: the same backend in this process; it must outlive this object.
  TrialJobs(Search search, trials::TrialRunner& local);

  [[nodiscard]] trials::Measurement Run(
      const trials::TrialRequest& request) override;
  [[nodiscard]] std::optional<double> ExactThroughput(
      const trials::Candidate& candidate) const override {
    return local_.ExactThroughput(candidate);
  }

 private:
  [[nodiscard]] std::filesystem::path FolderOf(const TrialTask& task) const;
  void Submit(const std::filesystem::path& folder, const TrialTask& task,
              TrialJob& job) const;
  // The measurement of a job that ended without a result; nothing: retry.
  [[nodiscard]] std::optional<trials::Measurement> Conclude(
      const std::filesystem::path& folder,
      const std::optional<QueueEntry>& entry, TrialJob& job) const;

  void CancelOthers() const;

  Search search_;
  trials::TrialRunner& local_;
  mutable std::mutex mutex_;             // of own_
  std::set<std::filesystem::path> own_;  // folders of trials of this start
};

// The jobs of the trials of a run that have no result yet, but for those in the
// folders `without`.
[[nodiscard]] std::vector<std::int64_t> TrialJobIds(
    const std::filesystem::path& run_folder,
    const std::set<std::filesystem::path>& without = {});

}  // namespace harness
