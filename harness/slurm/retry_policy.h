// The retry policy for a Slurm job that ended, or cannot start, without a
// result. Runs (run_task.h) and trials that are jobs (trial_jobs.h) share this
// policy.

#pragma once

#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "harness/manifest/slurm_options.h"
#include "harness/slurm/slurm_queue.h"
#include "harness/slurm/submission.h"

namespace harness {

enum class JobAction {
  kRetryOnOtherNodes,  // the failure counts against SlurmOptions::retries
  kRetryAnywhere,      // without node exclusions; does not count
  kContinue,           // in a new job, after a time limit; does not count
  kGiveUp,
};

// The known facts about the job.
struct JobEvidence {
  std::optional<QueueEntry> entry;      // nothing: unknown to Slurm
  std::optional<SlurmAttempt> attempt;  // written by the job itself
  std::string detail;                   // one line to display
  int failures = 0;                     // of the machine, in earlier attempts
  bool excludes_nodes = false;          // it was submitted with exclusions
  bool progressed = false;              // trials were added since submission
};

struct JobVerdict {
  JobAction action = JobAction::kGiveUp;
  std::string reason;  // one line to display
};

[[nodiscard]] JobVerdict DecideRetry(const SlurmOptions& options,
                                     const JobEvidence& evidence);

// The exclusions for the next attempt after a failure on `node`, which may be
// unknown. Empty after failures on many nodes: then the nodes are not the
// cause.
[[nodiscard]] std::vector<std::string> ExtendExclusions(
    std::vector<std::string> excluded, const std::string& node);

// Displays a line.
using Note = std::function<void(const std::string& line)>;

// Calls submit(excluded). If sbatch fails, because no node is left, says so and
// calls submit({}).
template <typename Submit>
void SubmitExcluding(const std::vector<std::string>& excluded, const Note& note,
                     const Submit& submit) {
  try {
    submit(excluded);
  } catch (const std::runtime_error& e) {
    if (excluded.empty()) {
      throw;
    }
    note(fmt::format("{}\nretrying without node exclusions", e.what()));
    submit(std::vector<std::string>());
  }
}

}  // namespace harness
