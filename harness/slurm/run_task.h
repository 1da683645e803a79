// The Slurm jobs: one run, the last job of a submission, or one trial.

#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "harness/slurm/retry_policy.h"

namespace harness {

// Exit code of a run that stopped in an orderly way before its end.
inline constexpr int kStoppedEarly = 75;

// The time after which a job stops by itself, before Slurm's limit.
[[nodiscard]] double SecondsBeforeLimit(int time_minutes);

// Executes a command line of this program in this process; returns the exit
// code.
using CallSelf = std::function<int(const std::vector<std::string>&)>;

// A task of a submission; SLURM_ARRAY_TASK_ID is its number, counted from
// `base`. Records the outcome (SlurmAttempt).
// Errors: those of the command; InputError outside an array task.
[[nodiscard]] int RunTask(const std::filesystem::path& submission_folder,
                          int base, const CallSelf& call);

// The last job of a submission: resubmits the runs that are not done and that
// the retry policy does not give up, then reports. `note` says what becomes of
// each run.
[[nodiscard]] int FinishSubmission(
    const std::filesystem::path& submission_folder, const CallSelf& call,
    const Note& note);

// A trial that is a job: runs the trial of a folder (trial_jobs.h) with the
// backend of its problem and writes the result there. On a real clock it stops
// before Slurm's limit. Returns the exit code: 0, or kStoppedEarly after a
// signal.
// Errors: throws what the backend throws, after recording it.
[[nodiscard]] int RunTrial(const std::filesystem::path& folder);

}  // namespace harness
