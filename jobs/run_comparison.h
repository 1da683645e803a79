// A real run beside the forecast of its configuration.

#ifndef JOBS_RUN_COMPARISON_H_
#define JOBS_RUN_COMPARISON_H_

#include <filesystem>
#include <string>
#include <vector>

#include "common/error.h"
#include "jobs/forecast.h"

namespace jobs {

// Compares the step of a run with its forecast, by part where a file is a trace
// of PyTorch's profiler (Kineto's JSON): a moment of a GPU's time is
// computation while a kernel runs that is no collective, else exposed
// communication of the group whose collective runs, else a launch gap (at most
// 100 us) or idle. Other files are logs; step times and memory are read by the
// patterns of the framework's adapter or from a progress bar of tqdm, and the
// first step does not count. `config`: "" is the one that Megatron-LM's log has
// in its list of arguments.
// Errors: throws InputError for files without a step, and for a configuration
// that is missing, incomplete or invalid.
[[nodiscard]] std::string CompareRun(
    const Forecaster& planner, const std::vector<std::filesystem::path>& files,
    const std::string& config);

}  // namespace jobs

#endif  // JOBS_RUN_COMPARISON_H_
