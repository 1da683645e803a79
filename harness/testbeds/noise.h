// The noise and the failures of trials, from a manifest and a file of measured
// values.

#ifndef HARNESS_TESTBEDS_NOISE_H_
#define HARNESS_TESTBEDS_NOISE_H_

#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>

#include "common/error.h"
#include "common/toml_table.h"
#include "harness/spec.h"
#include "trials/trial_runner.h"
#include "trials/wrappers/noisy_runner.h"

namespace harness {

// A number of a table that must not be negative.
// Errors: throws InputError, as all functions here.
[[nodiscard]] double GetNotNegative(const common::TomlTable& table,
                                    std::string_view key, double otherwise);

// The file that `file` of [noise] names, relative to the manifest: a table per
// field of NoiseOptions, failure_s or launch_process_s, with its `value`, the
// `range` of sensible values and, in comments, their source.
[[nodiscard]] std::optional<std::filesystem::path> NoiseFile(
    const common::TomlTable& noise);

// The options of the step noise: those of [noise], else those of its file, else
// the defaults. `factor` multiplies them (trials::Scaled).
[[nodiscard]] trials::NoiseOptions ReadNoise(const common::TomlTable& noise);

// From the start of a program until its ranks have joined their group: that of
// the file of noise, or `otherwise`.
[[nodiscard]] double LaunchTime(const ProblemSpec& problem, double otherwise);

// From the failure of a rank until all its processes have exited: that of
// [backend], of the file of noise, or `otherwise`.
[[nodiscard]] double FailureTime(const ProblemSpec& problem, double otherwise);

// The runner with the noise of [noise] and, outermost, the time limit around
// it.
[[nodiscard]] std::unique_ptr<trials::TrialRunner> WithNoise(
    std::unique_ptr<trials::TrialRunner> runner,
    const common::TomlTable& noise);

}  // namespace harness

#endif  // HARNESS_TESTBEDS_NOISE_H_
