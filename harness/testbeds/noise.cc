#include "harness/testbeds/noise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/error.h"
#include "common/files.h"
#include "common/ranges.h"
#include "common/text.h"
#include "common/toml_table.h"
#include "harness/spec.h"
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

// The values of the file, by key.
using Values = std::map<std::string, double, std::less<>>;
Values ReadValues(const std::filesystem::path& path) {
  const TomlTable file = TomlTable::ParseFile(path);
  std::vector<std::string> known = {std::string(kFailure),
                                    std::string(kLaunch)};
  for (const auto& [key, field] : kFields) {
    known.emplace_back(key);
  }
  Values values;
  for (const std::string& key : file.Keys()) {
    if (!common::Contains(known, key)) {
      file.Fail(key, fmt::format("unknown key '{}'{}", key,
                                 common::DidYouMean(key, known)));
    }
    const TomlTable entry = file.RequireTable(key);
    const double value = entry.RequireDouble("value");
    const std::vector<double> range = entry.GetDoubles("range");
    if (range.size() != 2 || !(range[0] <= value && value <= range[1])) {
      entry.Fail("range",
                 fmt::format("the range of {} must be two numbers around its "
                             "value {}",
                             key, value));
    }
    values[key] = value;
  }
  return values;
}

// The file that [noise] names.
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

}  // namespace

Noise ReadNoise(const ProblemSpec& problem) {
  const TomlTable& table = problem.noise;
  Noise noise{.file = NoiseFile(table)};
  const Values values = noise.file ? ReadValues(*noise.file) : Values();
  const auto of_file = [&](std::string_view key) -> std::optional<double> {
    const auto found = values.find(key);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
  for (const auto& [key, field] : kFields) {
    double& value = noise.steps.*field;
    value = table.GetDouble(key, of_file(key).value_or(value));
    if (!std::isfinite(value)) {
      table.Fail(key,
                 fmt::format("{} is {}: must be a finite number", key, value));
    }
  }
  noise.steps = Scaled(noise.steps, table.GetNotNegative("factor", 1.0));
  noise.costs = {of_file(kLaunch), of_file(kFailure)};
  if (problem.backend.Has(kFailure)) {
    noise.costs.failure_s = problem.backend.GetNotNegative(kFailure, 0.0);
  }
  return noise;
}

std::unique_ptr<trials::TrialRunner> WithNoise(
    std::unique_ptr<trials::TrialRunner> runner, const Noise& noise,
    std::string_view where) {
  try {
    runner =
        std::make_unique<trials::NoisyRunner>(std::move(runner), noise.steps);
  } catch (const common::InputError&) {
    throw;
  } catch (const std::invalid_argument& e) {
    throw common::InputError(fmt::format("{}: [noise]: {}", where, e.what()));
  }
  return std::make_unique<trials::TimeLimitedRunner>(std::move(runner));
}

}  // namespace harness
