// What Slurm says about jobs, from one squeue call.

#ifndef HARNESS_SLURM_SLURM_QUEUE_H_
#define HARNESS_SLURM_SLURM_QUEUE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace harness {

// One job or array task. Slurm's word on whether it succeeded is not to be
// trusted: a job whose script never ran has been seen as COMPLETED.
struct QueueEntry {
  std::string state;      // Slurm's long name, "PENDING"; may be one unknown
  std::string reason;     // "Resources", "Priority", "None", ...
  std::string node;       // where it runs or ran
  std::string time_left;  // of its limit, Slurm's format

  // It may still run, now or later.
  [[nodiscard]] bool IsActive() const;
  // It waits for something that will never come: held, or a dependency that
  // cannot be met any more.
  [[nodiscard]] bool IsStuck() const;
  // It ended for a reason that has nothing to do with what it ran.
  [[nodiscard]] bool IsInfrastructureFailure() const;
  // "pending (Priority)", "time limit reached", ...: for people.
  [[nodiscard]] std::string Explain() const;
};

// By (job id of the array, task id); the task id of a plain job is -1.
using Queue = std::map<std::pair<std::int64_t, int>, QueueEntry>;

// Reads squeue's lines "%F|%K|%T|%N|%L|%r". Lines that are something else are
// skipped.
[[nodiscard]] Queue ParseQueue(std::string_view text);

// Asks squeue, finished jobs included as long as Slurm knows them; `which`:
// its words that say which jobs. The answer is what ParseQueue reads. Nothing
// if there is none: no squeue here, or the controller is down.
[[nodiscard]] std::optional<std::string> AskSqueue(
    const std::vector<std::string>& which);

// Such a word for these jobs. Jobs that Slurm has forgotten are left out.
[[nodiscard]] std::string JobList(const std::vector<std::int64_t>& job_ids);

// What squeue says of these jobs.
[[nodiscard]] std::optional<Queue> ReadQueue(
    const std::vector<std::int64_t>& job_ids);

}  // namespace harness

#endif  // HARNESS_SLURM_SLURM_QUEUE_H_
