// An experiment as a file: problem x methods x repeats.

#ifndef HARNESS_MANIFEST_H_
#define HARNESS_MANIFEST_H_

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/toml_table.h"

namespace harness {

// One problem: the tables of the manifest that describe it, in which every
// list that is an axis is replaced by one of its elements.
struct ProblemSpec {
  std::string name;  // the axis values, "" when there is no axis
  common::TomlTable backend;
  common::TomlTable noise;
  common::TomlTable workload;
  common::TomlTable cluster;
  common::TomlTable space;
  std::filesystem::path rules_folder;  // where rule sets are, by name
};

// One method as the manifest asks for it.
struct MethodSpec {
  std::string name;           // folder name, unique in the experiment
  std::string label;          // for legends
  std::string base;           // the registry's name of it
  common::TomlTable options;  // [method.NAME], perhaps empty
};

// What a run may spend; at least one of the first two is a limit.
struct Budget {
  double time_s = std::numeric_limits<double>::infinity();  // > 0
  int trials = 0;                                           // >= 0; 0: no limit
  int q_max = 1;                 // steps of a full trial; > 0
  bool charge_thinking = false;  // the methods' own time counts as search time
};

// An experiment. Format: docs/manifest_format.md.
struct Manifest {
  std::filesystem::path path;
  std::string name;
  std::string title;
  std::vector<std::string> figures;
  std::uint64_t seed = 1;
  int repeats = 1;  // > 0
  Budget budget;
  std::vector<ProblemSpec> problems;
  std::vector<MethodSpec> methods;
  common::TomlTable slurm;  // [slurm], perhaps empty; no run depends on it

  // Seeds of everything random. Neither depends on the method: in one repeat
  // of one problem all methods start from the same random state, and a
  // configuration that two of them try shows the same step times to both, so
  // that methods are compared in pairs.
  [[nodiscard]] std::uint64_t MethodSeed(const ProblemSpec& problem,
                                         int repeat) const;
  [[nodiscard]] std::uint64_t TrialSeed(const ProblemSpec& problem,
                                        int repeat) const;

  // Everything that a run's records depend on, as a hash: the tables above,
  // the files that they name, the budget and the seed. Neither titles nor the
  // number of repeats nor the other methods are in it, so an experiment can
  // grow and keep its records.
  [[nodiscard]] std::string RunHash(const ProblemSpec& problem,
                                    const MethodSpec& method) const;
};

// What the command line says in place of the manifest.
struct ManifestOverrides {
  std::optional<int> repeats;
  std::vector<std::string> methods;
};

// Reads a manifest: every key is known and has the right type, names are safe
// to be folder names, methods exist. Options of methods and facts of problems
// are checked when these are made (see CheckManifest in plan.h).
//
// Errors: throws InputError "file:line:column: ...", value, rule and remedy.
[[nodiscard]] Manifest ReadManifest(const std::filesystem::path& path,
                                    const ManifestOverrides& overrides = {});

}  // namespace harness

#endif  // HARNESS_MANIFEST_H_
