// One run from start, or from where it was cut off, to its end.

#ifndef HARNESS_RUN_ONE_H_
#define HARNESS_RUN_ONE_H_

#include <filesystem>
#include <functional>
#include <string>

#include "harness/lease.h"
#include "harness/manifest.h"
#include "harness/plan.h"

namespace harness {

// Does one run and writes its records. A run that is finished is left alone.
// `command` is what started it, for run.json. `stop` is asked before every
// trial. Returns false if it made the run stop before its end.
// Errors: as Journal and Search; InputError when the folder holds records that
// were made from other input.
bool RunOne(const Manifest& manifest,
            const RunSpec& run,
            const std::filesystem::path& experiment_folder,
            const std::string& command,
            const std::function<bool()>& stop = {},
            double lease_timeout_s = Lease::kTimeoutSeconds);

// Threads that a suggestion of this process may use: OPPA_THREADS, else
// SLURM_CPUS_PER_TASK, else 1. Records do not depend on it.
// Errors: throws InputError when the variable holds no number from 1 to 1024.
[[nodiscard]] int SuggestionThreads();

// True when the run's records say that it came to its end.
[[nodiscard]] bool IsFinished(const std::filesystem::path& run_folder);

}  // namespace harness

#endif  // HARNESS_RUN_ONE_H_
