// A runner that submits every trial to Slurm as a separate job.

#ifndef HARNESS_SLURM_TRIAL_JOBS_H_
#define HARNESS_SLURM_TRIAL_JOBS_H_

#include <filesystem>
#include <optional>
#include <vector>

#include "harness/dispatcher.h"
#include "harness/slurm/retry_policy.h"
#include "harness/slurm/slurm_commands.h"
#include "harness/slurm/slurm_options.h"
#include "harness/slurm/slurm_queue.h"
#include "harness/slurm/trial_files.h"
#include "trials/trial_runner.h"

namespace harness {

// Submits a trial and waits for its result.json or for its end in the queue
// (one squeue call for all searches of the experiment, slurm_queue.h). The job,
// `oppa run-task FOLDER trial`, uses the backend of the problem, so the
// measurement equals that of a local trial. Time in the queue does not count as
// search time.
//
// If an earlier start of the search has submitted the trial, Run waits for that
// job. After failures of the machine it submits the trial again
// (retry_policy.h). Slurm's time limit is kTimedOut, and out of host memory is
// kFailed: both are data.
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
    Job needs;       // nodes and GPUs of a trial
    TrialTask task;  // complete except for the request
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
  void Prepare(const std::filesystem::path& folder, const TrialTask& task);
  void Submit(const std::filesystem::path& folder, TrialJob& job) const;
  // The measurement of a job that ended without a result; nothing: retry.
  [[nodiscard]] std::optional<trials::Measurement> Conclude(
      const std::filesystem::path& folder,
      const std::optional<QueueEntry>& entry, TrialJob& job) const;

  Search search_;
  trials::TrialRunner& local_;
};

// The jobs of the trials of a run that have no result yet.
[[nodiscard]] std::vector<std::int64_t> TrialJobIds(
    const std::filesystem::path& run_folder);

}  // namespace harness

#endif  // HARNESS_SLURM_TRIAL_JOBS_H_
