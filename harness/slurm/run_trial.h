// What a job of Slurm does that is one trial.

#ifndef HARNESS_SLURM_RUN_TRIAL_H_
#define HARNESS_SLURM_RUN_TRIAL_H_

#include <filesystem>

namespace harness {

// Runs the trial of a folder (trial_files.h) in this process with the
// problem's own backend, and leaves its result there. On a real clock it stops
// by itself before Slurm's limit. Returns the exit code: 0, or kStoppedEarly
// when a signal came.
// Errors: throws what the backend throws, after leaving word.
[[nodiscard]] int RunTrial(const std::filesystem::path& folder);

}  // namespace harness

#endif  // HARNESS_SLURM_RUN_TRIAL_H_
