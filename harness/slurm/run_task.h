// What a job of Slurm does: one run, or the last job of a submission.

#ifndef HARNESS_SLURM_RUN_TASK_H_
#define HARNESS_SLURM_RUN_TASK_H_

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "common/error.h"

namespace harness {

// Exit code of a run that stopped in good order before its end.
inline constexpr int kStoppedEarly = 75;

// How long a job may go on so that it ends by itself before Slurm's limit.
[[nodiscard]] double SecondsBeforeLimit(int time_minutes);

// Executes a command line of this program in this process; its exit code.
using CallSelf = std::function<int(const std::vector<std::string>&)>;

// A task of a submission: SLURM_ARRAY_TASK_ID says which, counted from `base`.
// Writes down how it went (SlurmAttempt) for whoever asks later.
// Errors: those of the command; InputError outside an array task.
[[nodiscard]] int RunTask(const std::filesystem::path& submission_folder,
                          int base,
                          const CallSelf& call);

// The last job of a submission. Runs that the machine failed are submitted
// again, on other nodes, at most SlurmOptions::retries times; runs that a time
// limit stopped go on in a new job if requeue_until_done is set and they got
// on; then the report of what there is.
[[nodiscard]] int FinishSubmission(
    const std::filesystem::path& submission_folder, const CallSelf& call);

}  // namespace harness

#endif  // HARNESS_SLURM_RUN_TASK_H_
