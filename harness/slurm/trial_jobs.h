// A backend that gives every trial to Slurm as a job of its own.

#ifndef HARNESS_SLURM_TRIAL_JOBS_H_
#define HARNESS_SLURM_TRIAL_JOBS_H_

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/slurm/slurm_options.h"
#include "harness/slurm/slurm_queue.h"
#include "harness/slurm/trial_files.h"
#include "trials/trial_runner.h"

namespace harness {

// Submits a trial, waits for its result.json and looks at the queue (one
// squeue for all loops of the experiment, shared_queue.h). The trial itself is
// run by `oppa run-task FOLDER trial` with the problem's own backend, so the
// measurement is that of a trial here. Waiting in the queue costs no search
// time.
//
// A trial whose job is there already, from an earlier start of the search, is
// waited for and not submitted again. What the machine failed is submitted
// again, SlurmOptions::retries times at most, on other nodes. Slurm's time
// limit is kTimedOut, out of host memory is kFailed: both are data.
//
// Errors: Run throws TrialInterrupted when the search is to stop or somebody
// cancelled the job; std::runtime_error when the job cannot be run at all.
class TrialJobs final : public trials::TrialRunner {
 public:
  struct Place {
    std::filesystem::path program;            // this one
    std::filesystem::path experiment_folder;  // absolute
    std::filesystem::path run_folder;         // absolute
    std::string experiment;
    std::filesystem::path manifest;  // absolute
    std::string problem;
    int nodes = 1;
    int gpus_per_node = 0;
  };

  // `here` is the same backend in this process; it outlives this object.
  TrialJobs(SlurmOptions options, Place place, trials::TrialRunner& here);

  [[nodiscard]] trials::Measurement Run(
      const trials::TrialRequest& request) override;
  [[nodiscard]] std::optional<double> ExactThroughput(
      const trials::ParallelConfig& config) const override {
    return here_.ExactThroughput(config);
  }

 private:
  void Prepare(const std::filesystem::path& folder, const TrialTask& task);
  void Submit(const std::filesystem::path& folder, TrialJob& job) const;
  // What a job that ended without a result means; nothing: again.
  [[nodiscard]] std::optional<trials::Measurement> Judge(
      const std::filesystem::path& folder,
      const std::optional<QueueEntry>& entry,
      TrialJob& job) const;

  SlurmOptions options_;
  Place place_;
  trials::TrialRunner& here_;
};

// The jobs of trials below a run's folder that have no result yet.
[[nodiscard]] std::vector<std::int64_t> TrialJobIds(
    const std::filesystem::path& run_folder);

}  // namespace harness

#endif  // HARNESS_SLURM_TRIAL_JOBS_H_
