// The status of jobs that were submitted to Slurm, from submissions, attempts
// and the queue.

#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/slurm/slurm_queue.h"
#include "harness/slurm/submission.h"
#include "harness/status.h"

namespace harness {

// The last submission of a job. Whether its run is done is in the run's record
// only.
struct SlurmTaskState {
  enum class Kind {
    kPending,
    kStuck,      // pending, and will not start
    kRunning,    // according to Slurm
    kEnded,      // in an orderly way, according to its attempt
    kCancelled,  // by `oppa cancel` or scancel
    kFailed,
    kLost,     // unknown to Slurm, and its attempt has no end
    kUnknown,  // squeue does not answer
  };
  Kind kind = Kind::kUnknown;
  std::string detail;  // one line to display
  std::string node;
  std::string time_left;
  std::filesystem::path log;
  SlurmTask task;
  std::int64_t array_job_id = 0;  // 0: not submitted
  int array_task = 0;
  std::optional<QueueEntry> entry;
  std::optional<SlurmAttempt> attempt;

  [[nodiscard]] bool IsActive() const {
    return kind == Kind::kPending || kind == Kind::kStuck ||
           kind == Kind::kRunning;
  }
  // For Cancel: "17_3".
  [[nodiscard]] std::string TaskId() const;
};

// The state of one task of a submission.
[[nodiscard]] SlurmTaskState StateOf(const SlurmSubmission& submission,
                                     const SlurmTask& task,
                                     const std::optional<Queue>& queue);

// The newest submission of every job, by the name of the job.
[[nodiscard]] std::map<std::string, SlurmTaskState> LatestTasks(
    const std::vector<SlurmSubmission>& submissions,
    const std::optional<Queue>& queue);

// Adds the state of Slurm jobs to the runs of an experiment that are not done:
// pending, running on a node, failed. Calls squeue at most once every
// kQueueCacheSeconds, however often it is called.
void AddQueue(const Experiment& experiment, std::vector<RunStatus>& runs);

}  // namespace harness
