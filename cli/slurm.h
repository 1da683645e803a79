// The parts of `run`, `plan` and `status` that have to do with Slurm.

#ifndef CLI_SLURM_H_
#define CLI_SLURM_H_

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/verb_options.h"
#include "harness/backends.h"
#include "harness/manifest.h"
#include "harness/plan.h"
#include "harness/slurm/submission.h"

namespace cli {

// A submission without its jobs. `report`: draw when all is through.
[[nodiscard]] harness::SlurmSubmission NewSubmission(
    const VerbOptions& options,
    const harness::Manifest& manifest,
    const std::string& token,
    bool report);

// The jobs (ids are indices into `runs`) with the nodes and GPUs they need,
// and paths that hold from anywhere.
[[nodiscard]] std::vector<harness::Job> WithNeeds(
    const harness::SlurmOptions& options,
    const std::vector<harness::RunSpec>& runs,
    std::vector<harness::Job> jobs);

// The jobs that are not in Slurm's queue from an earlier submission. What is
// stuck there is cancelled and counts as not in it.
// Errors: throws std::runtime_error when Slurm cannot be asked.
[[nodiscard]] std::vector<harness::Job> NotInTheQueue(
    const std::filesystem::path& experiment_folder,
    const std::vector<harness::Job>& jobs);

// The command that gives a trial of the first problem to Slurm, for people.
[[nodiscard]] std::string FormatTrialSubmission(
    const harness::SlurmSubmission& submission,
    const harness::Manifest& manifest);

// A runner that makes a job of every trial of a run (trial_jobs.h). `backend`
// outlives it.
[[nodiscard]] std::unique_ptr<trials::TrialRunner> MakeTrialJobs(
    const VerbOptions& options,
    const harness::Manifest& manifest,
    const harness::RunSpec& run,
    const harness::Backend& backend);

// Waits until the last job of the newest submission is through, or a signal
// came.
void WaitForLastJob(const std::filesystem::path& experiment_folder);
// What it printed: the report.
[[nodiscard]] std::string LastJobOutput(
    const std::filesystem::path& experiment_folder);

}  // namespace cli

#endif  // CLI_SLURM_H_
