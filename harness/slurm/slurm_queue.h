// The state of jobs according to squeue.

#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace harness {

// How a job ended.
enum class JobEnd {
  kNone,  // it is in the queue, or running
  kCancelled,
  kTimeLimit,
  kHostMemory,
  kMachine,  // a reason unrelated to the program
  kOther,    // completed, failed, or a state that is unknown here
};

// One job or array task. A state of COMPLETED does not prove success: jobs
// whose script never ran have been COMPLETED.
struct QueueEntry {
  std::string state;      // Slurm's long name, "PENDING"; may be unknown here
  std::string reason;     // "Resources", "Priority", "None", ...
  std::string node;       // where it runs or ran
  std::string time_left;  // of its limit, in Slurm's format

  [[nodiscard]] JobEnd End() const;
  [[nodiscard]] bool IsActive() const { return End() == JobEnd::kNone; }
  // It will not start: held, or a dependency or constraint that cannot be
  // satisfied.
  [[nodiscard]] bool IsStuck() const;
  // Slurm holds it after a failed launch.
  [[nodiscard]] bool IsLaunchFailedHold() const;
  // A user or an administrator holds it.
  [[nodiscard]] bool IsHeldByUser() const;
  // The nodes that it may use are down, drained or excluded.
  [[nodiscard]] bool WaitsForNodes() const;
  // "pending (Priority)", "time limit reached", ...: for display.
  [[nodiscard]] std::string Explain() const;
};

// By (job id of the array, task id); the task id of a plain job is -1.
using Queue = std::map<std::pair<std::int64_t, int>, QueueEntry>;

// Parses the lines "%F|%K|%T|%N|%L|%r" of squeue. Other lines are skipped.
[[nodiscard]] Queue ParseQueue(std::string_view text);

// Reads the state of all jobs with the name of an experiment's jobs, of other
// users and results folders, too, with one squeue call. Finished jobs are
// included as long as Slurm lists them. Returns nothing if there is no answer:
// squeue is not installed, or the controller is down.
[[nodiscard]] std::optional<Queue> ReadQueue(const std::string& experiment);

// The maximum age of a cached answer.
inline constexpr double kQueueCacheSeconds = 3.0;

// The queue for processes that poll: the searches of an experiment, `oppa
// status` in a loop. They share one squeue call per kQueueCacheSeconds through
// a file in <experiment folder>/.slurm. Without write permission there, each
// one calls squeue.
[[nodiscard]] std::optional<Queue> ReadCachedQueue(
    const std::filesystem::path& experiment_folder,
    const std::string& experiment);

// Discards a cached answer after a change to the queue.
void DropCachedQueue(const std::filesystem::path& experiment_folder);

}  // namespace harness
