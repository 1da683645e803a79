// One answer of squeue for everybody who asks at about the same time.

#ifndef HARNESS_SLURM_SHARED_QUEUE_H_
#define HARNESS_SLURM_SHARED_QUEUE_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/slurm/slurm_queue.h"

namespace harness {

// An answer may be so old. What happened to a job is known after this time.
inline constexpr double kSharedQueueSeconds = 3.0;

// The queue for processes that ask again and again: the search loops of an
// experiment, `oppa status` in a loop. An answer to the same question that is
// less than kSharedQueueSeconds old is taken from a file in <experiment
// folder>/.slurm, so all of them together ask squeue once in that time. Where
// that file cannot be written (somebody else's results) each asks for itself.
[[nodiscard]] std::optional<Queue> ReadSharedQueue(
    const std::filesystem::path& experiment_folder,
    const std::vector<std::int64_t>& job_ids);

// All jobs of this user with that name.
[[nodiscard]] std::optional<Queue> ReadSharedQueue(
    const std::filesystem::path& experiment_folder,
    const std::string& job_name);

// After a change by us: the next one asks anew.
void ForgetSharedQueue(const std::filesystem::path& experiment_folder);

}  // namespace harness

#endif  // HARNESS_SLURM_SHARED_QUEUE_H_
