// Giving a job to Slurm, once.

#ifndef HARNESS_SLURM_SBATCH_H_
#define HARNESS_SLURM_SBATCH_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace harness {

// Runs an sbatch command with a --comment that no other job has; returns the
// job's id. Tries again while the controller is away, unless a job with that
// comment shows that the lost try came through.
// Errors: throws std::runtime_error with sbatch's own message and the command.
[[nodiscard]] std::int64_t Sbatch(const std::vector<std::string>& words,
                                  const std::vector<std::string>& environment);

// Writes the script that every job runs (TaskScript).
// Errors: throws std::runtime_error.
void WriteTaskScript(const std::filesystem::path& path);

}  // namespace harness

#endif  // HARNESS_SLURM_SBATCH_H_
