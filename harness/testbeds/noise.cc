#include "harness/testbeds/noise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/error.h"
#include "common/files.h"
#include "common/text.h"
#include "trials/wrappers/time_limited_runner.h"

namespace harness {
namespace {

using common::TomlTable;
using trials::NoiseOptions;

constexpr std::string_view kFailure = "failure_s";
constexpr std::string_view kLaunch = "launch_process_s";

constexpr std::array<std::pair<std::string_view, double NoiseOptions::*>, 10>
    kFields = {{
        {"offset", &NoiseOptions::offset},
        {"jitter", &NoiseOptions::jitter},
        {"drift", &NoiseOptions::drift},
        {"drift_steps", &NoiseOptions::drift_steps},
        {"outlier_probability", &NoiseOptions::outlier_probability},
        {"outlier_size", &NoiseOptions::outlier_size},
        {"first_step_share", &NoiseOptions::first_step_share},
        {"first_step_s", &NoiseOptions::first_step_s},
        {"first_step_spread", &NoiseOptions::first_step_spread},
        {"setup_jitter", &NoiseOptions::setup_jitter},
    }};

void CheckKeys(const TomlTable& file) {
  std::vector<std::string> known = {std::string(kFailure),
                                    std::string(kLaunch)};
  for (const auto& [key, field] : kFields) {
    known.emplace_back(key);
  }
  for (const std::string& key : file.Keys()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      file.Fail(key, fmt::format("unknown key '{}'{}", key,
                                 common::DidYouMean(key, known)));
    }
  }
}

// The value of a key of that file, which lists a range too; `otherwise` without
// a file or the key.
double NoiseValue(const TomlTable& noise, std::string_view key,
                  double otherwise) {
  const std::optional<std::filesystem::path> path = NoiseFile(noise);
  if (!path) {
    return otherwise;
  }
  const TomlTable file = TomlTable::ParseFile(*path);
  CheckKeys(file);
  if (!file.Has(key)) {
    return otherwise;
  }
  const TomlTable entry = file.RequireTable(key);
  const double value = entry.GetDouble("value", otherwise);
  const std::vector<double> range = entry.GetDoubles("range");
  if (range.size() != 2 || !(range[0] <= value && value <= range[1])) {
    entry.Fail("range",
               fmt::format("the range of {} must be two numbers around its "
                           "value {}",
                           key, value));
  }
  return value;
}

}  // namespace

double GetNotNegative(const TomlTable& table, std::string_view key,
                      double otherwise) {
  const double value = table.GetDouble(key, otherwise);
  if (!(value >= 0.0) || !std::isfinite(value)) {
    table.Fail(key, fmt::format("{} = {}: must be a number >= 0", key,
                                common::ExactText(value)));
  }
  return value;
}

std::optional<std::filesystem::path> NoiseFile(const TomlTable& table) {
  if (!table.Has("file")) {
    return std::nullopt;
  }
  std::filesystem::path file = table.Folder() / table.RequireString("file");
  if (!common::IsFile(file)) {
    table.Fail("file", fmt::format("no such file: {}", file.string()));
  }
  return file;
}

trials::NoiseOptions ReadNoise(const TomlTable& table) {
  trials::NoiseOptions options;
  for (const auto& [key, field] : kFields) {
    options.*field =
        table.GetDouble(key, NoiseValue(table, key, options.*field));
    if (!std::isfinite(options.*field)) {
      table.Fail(key, fmt::format("{} is {}: must be a finite number", key,
                                  options.*field));
    }
  }
  return Scaled(options, GetNotNegative(table, "factor", 1.0));
}

double LaunchTime(const ProblemSpec& problem, double otherwise) {
  return NoiseValue(problem.noise, kLaunch, otherwise);
}

double FailureTime(const ProblemSpec& problem, double otherwise) {
  return GetNotNegative(problem.backend, kFailure,
                        NoiseValue(problem.noise, kFailure, otherwise));
}

std::unique_ptr<trials::TrialRunner> WithNoise(
    std::unique_ptr<trials::TrialRunner> runner, const TomlTable& noise) {
  const NoiseOptions options = ReadNoise(noise);
  try {
    runner = std::make_unique<trials::NoisyRunner>(std::move(runner), options);
  } catch (const common::InputError&) {
    throw;
  } catch (const std::invalid_argument& e) {
    throw common::InputError(
        fmt::format("{}: [noise]: {}", noise.Where(), e.what()));
  }
  return std::make_unique<trials::TimeLimitedRunner>(std::move(runner));
}

}  // namespace harness
