// An experiment as a file: problem x methods x repeats.

#ifndef HARNESS_MANIFEST_H_
#define HARNESS_MANIFEST_H_

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/toml_table.h"
#include "harness/spec.h"

namespace harness {

// What a run may spend; at least one of the first two is a limit.
struct Budget {
  double time_s = std::numeric_limits<double>::infinity();  // > 0
  int trials = 0;                                           // >= 0; 0: no limit
  int q_max = 1;                 // steps of a full trial; > 0
  bool charge_thinking = false;  // suggestion time counts as search time
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
  // of one problem, all methods start from the same random state and measure
  // the same step times for the same configuration, so comparisons are paired.
  [[nodiscard]] std::uint64_t MethodSeed(const ProblemSpec& problem,
                                         int repeat) const;
  [[nodiscard]] std::uint64_t TrialSeed(const ProblemSpec& problem,
                                        int repeat) const;
};

// Reads a manifest and checks keys, types, folder names and method names.
// CheckManifest (plan.h) checks the options of methods and the problems.
// Errors: throws InputError "file:line:column: ..." with the value, the rule
// and the remedy.
[[nodiscard]] Manifest ReadManifest(const std::filesystem::path& path,
                                    const ManifestOverrides& overrides = {});

}  // namespace harness

#endif  // HARNESS_MANIFEST_H_
