// The manifest: the file that describes an experiment (problems, methods and
// repeats).

#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "common/toml_table.h"
#include "harness/manifest/stop_condition.h"
#include "harness/spec.h"

namespace harness {

// The budget of a run; at least one of the first two fields is a limit.
struct Budget {
  double time_s = std::numeric_limits<double>::infinity();  // > 0
  int trials = 0;                                           // >= 0; 0: no limit
  int in_flight = 1;             // trials that run at once; > 0
  int q_max = 1;                 // steps of a full trial; > 0
  bool charge_thinking = false;  // suggestion time counts as search time
  // Ends the run earlier, for methods that estimate the remaining gain.
  std::optional<StopCondition> stop_when = std::nullopt;
};

// One line for people: "30 min or 20 trials, 10 steps a trial".
[[nodiscard]] std::string ToText(const Budget& budget);

// The trials that every method runs first; see StartsOf of experiment.h.
struct Starts {
  std::vector<std::string> configs;  // "dp=8,zero_stage=1"
  int common = 0;                    // drawn after these; >= 0
  std::string where;                 // "file:line:column"
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
  Starts starts;
  // The problems to run: without the held-out ones unless ManifestOverrides
  // includes them.
  std::vector<ProblemSpec> problems;
  bool simulated = true;              // see TestbedEntry
  std::vector<std::string> settings;  // see ManifestOverrides
  std::vector<std::string> held_out;  // names of problems, run or not
  bool runs_held_out = false;
  std::vector<MethodSpec> methods;
  common::TomlTable slurm;  // [slurm], may be empty; no run depends on it

  // The seeds of all random choices. Neither depends on the method: in one
  // repeat of one problem, all methods start from the same random state and
  // measure the same step times for the same configuration, so comparisons are
  // paired.
  [[nodiscard]] std::uint64_t MethodSeed(const ProblemSpec& problem,
                                         int repeat) const;
  [[nodiscard]] std::uint64_t TrialSeed(const ProblemSpec& problem,
                                        int repeat) const;
};

// A line that states which half of the problems runs and that results on
// held-out problems must not be used for choices; "" if no problem is held out.
[[nodiscard]] std::string HeldOutNote(const Manifest& manifest);

// The methods that [experiment] or the command line names, each with its table
// [method.NAME] if there is one. Every list in a method's table makes variants
// of the method, named METHOD-OPTION-VALUE.
// Errors: throws InputError for an unknown method, a name that cannot be a
// folder, a method that is listed twice, and an experiment without methods.
[[nodiscard]] std::vector<MethodSpec> ReadMethods(
    const common::TomlTable& root, const common::TomlTable& experiment,
    const ManifestOverrides& overrides);

// Reads a manifest and checks keys, types, folder names and method names.
// CheckManifest (experiment.h) checks the options of methods and the problems.
// Errors: throws InputError "file:line:column: ..." with the value, the rule
// and the remedy.
[[nodiscard]] Manifest ReadManifest(const std::filesystem::path& path,
                                    const ManifestOverrides& overrides = {});

}  // namespace harness
