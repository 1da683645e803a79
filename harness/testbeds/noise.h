// The noise and the failures of trials, from a manifest and a file of measured
// values.

#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>

#include "harness/spec.h"
#include "trials/trial_runner.h"
#include "trials/wrappers/noisy_runner.h"

namespace harness {

// What starting a program and ending a failed one takes. Absent: the default of
// the system that runs the trials.
struct FailureCosts {
  // From the start of a program until its ranks have joined their group.
  std::optional<double> launch_process_s;
  // From the failure of a rank until all its processes have exited.
  std::optional<double> failure_s;
};

struct Noise {
  trials::NoiseOptions steps;
  FailureCosts costs;
  std::optional<std::filesystem::path> file;  // that [noise] names
};

// The noise of [noise], else of the file that its key `file` names, relative to
// the manifest, else the defaults; `factor` multiplies it (trials::Scaled).
// [backend] failure_s precedes that of the file. The file has a table for each
// field of NoiseOptions and FailureCosts, with its `value`, the `range` of
// sensible values and, in comments, their source.
// Errors: throws InputError with the place in the manifest or the file.
[[nodiscard]] Noise ReadNoise(const ProblemSpec& problem);

// The runner with that noise and, outermost, the time limit around it.
// `where`: the place of [noise].
[[nodiscard]] std::unique_ptr<trials::TrialRunner> WithNoise(
    std::unique_ptr<trials::TrialRunner> runner, const Noise& noise,
    std::string_view where);

}  // namespace harness
