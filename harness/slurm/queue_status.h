// What Slurm knows of runs, as a part of their status.

#ifndef HARNESS_SLURM_QUEUE_STATUS_H_
#define HARNESS_SLURM_QUEUE_STATUS_H_

#include <filesystem>
#include <vector>

#include "harness/manifest.h"
#include "harness/status.h"

namespace harness {

// Adds what Slurm knows of runs that are not done: of those that are tasks of
// an array, and of trials that are jobs of their own. What the records say of
// runs that are done stays. Asks squeue once for each of the two, at most every
// few seconds (shared_queue.h), and not at all when there is nothing to ask.
void AddQueue(const Manifest& manifest,
              const std::filesystem::path& experiment_folder,
              std::vector<RunStatus>& runs);

}  // namespace harness

#endif  // HARNESS_SLURM_QUEUE_STATUS_H_
