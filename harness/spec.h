// The problems and methods of a manifest, as the lists of testbeds and methods
// read them.

#pragma once

#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "common/error.h"
#include "common/toml_table.h"
#include "trials/objective.h"

namespace harness {

// One problem: the tables of the manifest that describe it, in which every
// list that is an axis is replaced by one of its elements.
struct ProblemSpec {
  std::string name;  // the axis values, "" if there is no axis
  common::TomlTable backend;
  common::TomlTable noise;
  common::TomlTable workload;
  common::TomlTable cluster;
  common::TomlTable space;
  common::TomlTable predictions;       // see harness/predictions/predictions.h
  std::filesystem::path rules_folder;  // of the rule sets that have a name
  trials::Objective objective = trials::Objective::kTime;
};

// The file that a key names, relative to the manifest.
[[nodiscard]] inline std::filesystem::path NamedFile(
    const common::TomlTable& table, std::string_view key) {
  return table.Folder() / table.RequireString(key);
}

// The tokens of a step by [workload]; 0: unknown.
[[nodiscard]] inline double TokensPerStep(const ProblemSpec& problem) {
  return problem.workload.GetDouble("batch_size", 0.0) *
         problem.workload.GetDouble("sequence_length", 0.0);
}

// One method of a manifest.
struct MethodSpec {
  std::string name;           // folder name, unique in the experiment
  std::string label;          // for legends
  std::string base;           // its name in the registry
  common::TomlTable options;  // [method.NAME], may be empty
};

// Values on the command line that override those of the manifest.
struct ManifestOverrides {
  std::optional<int> repeats;
  std::vector<std::string> methods;
  std::vector<std::string> settings;  // "backend.failure_s=5"
  bool held_out = false;              // includes the problems that are held out
};

// Returns the result of `make`. Adds the place of the table to an error that
// has none.
template <typename Make>
auto WithPlace(const common::TomlTable& table, std::string_view name,
               Make make) {
  try {
    return make();
  } catch (const common::InputError&) {
    throw;
  } catch (const std::invalid_argument& e) {
    throw common::InputError(
        fmt::format("{}: [{}]: {}", table.Where(), name, e.what()));
  }
}

}  // namespace harness
