// What became of jobs that were given to Slurm: submissions, attempts and the
// queue put together.

#ifndef HARNESS_SLURM_SLURM_TASKS_H_
#define HARNESS_SLURM_SLURM_TASKS_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/slurm/slurm_queue.h"
#include "harness/slurm/slurm_state.h"

namespace harness {

// A job's last submission. None of it says that the run is done: that is for
// the run's record to say.
struct SlurmTaskState {
  enum class Kind {
    kPending,
    kStuck,    // pending for something that will not come
    kRunning,  // says Slurm
    kEnded,    // in good order, says the job itself
    kFailed,
    kLost,     // Slurm knows nothing of it, and it never said that it ended
    kUnknown,  // squeue does not answer
  };
  Kind kind = Kind::kUnknown;
  std::string detail;  // one line for people
  std::string node;
  std::string time_left;
  std::filesystem::path log;
  SlurmTask task;
  std::int64_t array_job_id = 0;  // 0: it was not submitted
  int array_task = 0;
  std::optional<QueueEntry> entry;
  std::optional<SlurmAttempt> attempt;

  [[nodiscard]] bool IsActive() const {
    return kind == Kind::kPending || kind == Kind::kStuck ||
           kind == Kind::kRunning;
  }
};

// The state of one task of a submission.
[[nodiscard]] SlurmTaskState StateOf(const SlurmSubmission& submission,
                                     const SlurmTask& task,
                                     const std::optional<Queue>& queue);

// The newest submission of every job, by the job's name. Asks squeue once.
[[nodiscard]] std::map<std::string, SlurmTaskState> LatestTasks(
    const std::vector<SlurmSubmission>& submissions,
    const std::optional<Queue>& queue);

// What squeue says of all these submissions, in one call.
[[nodiscard]] std::optional<Queue> ReadQueue(
    const std::vector<SlurmSubmission>& submissions);

// scancel for these jobs or tasks ("17", "17_3"); its complaint, or "".
std::string Cancel(const std::vector<std::string>& jobs);

}  // namespace harness

#endif  // HARNESS_SLURM_SLURM_TASKS_H_
