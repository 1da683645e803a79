// A real run beside the forecast of its configuration.

#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "jobs/plan/forecast.h"

namespace jobs {

// Parts of a step, in the order in which they count where several run at once:
// a moment of a GPU's time is computation while a kernel runs that is no
// collective, else exposed communication of the group whose collective runs,
// else a launch gap (at most 100 us) or idle.
enum Part {
  kCompute,
  kTensor,
  kContext,
  kExperts,
  kData,
  kPipeline,
  kGaps,
  kIdle
};
inline constexpr std::array kPartNames = {
    "computation",
    "exposed tensor-parallel communication",
    "exposed context-parallel communication",
    "exposed expert-parallel communication",
    "exposed data-parallel communication",
    "pipeline (transfers and waiting)",
    "launch gaps",
    "idle"};
using Parts = std::array<double, kPartNames.size()>;  // seconds of a step

[[nodiscard]] Parts PartsOf(const trials::TimeBreakdown& time);

// The parts of a step in a trace of PyTorch's profiler (Kineto's JSON) of a run
// with this configuration; of several devices, or stages of StepTrace, those of
// the one that ends last.
// Errors: throws InputError for another file and one without kernels of a GPU.
[[nodiscard]] Parts ReadProfile(const std::filesystem::path& trace,
                                const trials::ParallelConfig& config);

// The prediction of the configuration that --config names, with lines about
// values without effect and rules of the framework that it breaks.
// Errors: throws InputError for one that is incomplete or invalid.
[[nodiscard]] std::pair<Prediction, std::string> PredictionOf(
    const Forecaster& forecaster, const Forecast& forecast,
    const std::string& config);

// Compares the step of a run with its forecast, by part where a file is such a
// trace. Other files are logs; step times and memory are read by the
// patterns of the framework's adapter, or by `step_time`, a regular expression
// with the seconds in its first group; the first step does not count. `config`:
// "" is the one that Megatron-LM's log has in its list of arguments.
// Errors: throws InputError for files without a step, with the patterns tried
// and similar lines, for a log that LogScanner refuses, and for a configuration
// that is missing, incomplete or invalid.
[[nodiscard]] std::string CompareRun(
    const Forecaster& forecaster, const Forecast& forecast,
    const std::vector<std::filesystem::path>& files, const std::string& config,
    const std::string& step_time = "");

}  // namespace jobs
