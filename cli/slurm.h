// The parts of `run`, `plan` and `status` that use Slurm.

#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/verb_options.h"
#include "harness/experiment.h"
#include "harness/slurm/submission.h"
#include "harness/slurm/trial_jobs.h"

namespace cli {

// A submission without its jobs. `report`: draw the report when all jobs have
// finished.
[[nodiscard]] harness::SlurmSubmission NewSubmission(
    const VerbOptions& options, const harness::Experiment& experiment,
    const std::string& token, bool report);

// The jobs (ids are indices into the runs) with the nodes and GPUs they need,
// and absolute paths.
[[nodiscard]] std::vector<harness::Job> WithNeeds(
    const harness::SlurmOptions& options, const harness::Experiment& experiment,
    std::vector<harness::Job> jobs);

// The jobs that are not in Slurm's queue from an earlier submission. Jobs that
// are stuck there are canceled and count as not queued.
// Errors: throws std::runtime_error when the query of Slurm fails.
[[nodiscard]] std::vector<harness::Job> NotInTheQueue(
    const std::filesystem::path& experiment_folder,
    const std::vector<harness::Job>& jobs);

// The command that submits a trial of the first problem to Slurm, for display.
[[nodiscard]] std::string FormatTrialSubmission(
    const harness::SlurmSubmission& submission,
    const harness::Experiment& experiment);

// A runner that submits every trial of a run as a job (trial_jobs.h). The
// experiment must outlive it. `check`: for measurements outside of the search.
[[nodiscard]] std::unique_ptr<trials::TrialRunner> MakeTrialJobs(
    const harness::Experiment& experiment, const harness::RunSpec& run,
    const std::optional<harness::TrialCheck>& check = {});

// Waits until the last job of the newest submission has finished or a signal
// arrives. Returns the output of that job: the report.
[[nodiscard]] std::string OutputOfLastJob(
    const std::filesystem::path& experiment_folder);

}  // namespace cli
