#include "harness/manifest.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"
#include "common/hash.h"
#include "common/text.h"
#include "harness/backends.h"
#include "harness/manifest_methods.h"
#include "harness/names.h"
#include "plots/report.h"

namespace harness {
namespace {

using common::InputError;
using common::TomlTable;

// A key whose list of values creates one problem per value.
struct Axis {
  TomlTable ProblemSpec::*table;
  std::string_view key;
  std::string_view prefix;  // before the value, where it is a bare number
};

constexpr std::array<Axis, 8> kAxes = {{
    {&ProblemSpec::backend, "framework", ""},
    {&ProblemSpec::backend, "scenarios", ""},
    {&ProblemSpec::cluster, "file", ""},
    {&ProblemSpec::cluster, "gpus", "g"},
    {&ProblemSpec::workload, "model", ""},
    {&ProblemSpec::workload, "batch_size", "b"},
    {&ProblemSpec::workload, "sequence_length", "s"},
    {&ProblemSpec::workload, "precision", ""},
}};

// `simulated`: the clock of the backend is virtual.
Budget ReadBudget(const TomlTable& table, bool simulated) {
  Budget budget;
  if (table.Has("time_minutes")) {
    const double minutes = table.RequirePositive("time_minutes");
    budget.time_s = minutes * 60.0;
  }
  if (table.Has("trials")) {
    budget.trials = table.RequireIntIn("trials", 1);
  }
  if (std::isinf(budget.time_s) && budget.trials == 0) {
    throw InputError(fmt::format(
        "{}: a budget is missing: give time_minutes or trials, or both",
        table.Where()));
  }
  budget.q_max = table.RequireIntIn("q_max", 1);
  budget.charge_thinking = table.GetBool("charge_thinking", !simulated);
  return budget;
}

// Replaces every list that is an axis by its elements, one problem for each
// combination, the first axis outermost.
std::vector<ProblemSpec> ExpandAxes(const ProblemSpec& base) {
  std::vector<ProblemSpec> problems{base};
  for (const Axis& axis : kAxes) {
    std::vector<ProblemSpec> expanded;
    for (const ProblemSpec& problem : problems) {
      for (auto& [text, table] : (problem.*axis.table).Alternatives(axis.key)) {
        ProblemSpec& next = expanded.emplace_back(problem);
        next.*axis.table = table;
        if (text.empty()) {
          continue;
        }
        next.name += fmt::format("{}{}{}",
                                 next.name.empty() ? "" : "-",
                                 axis.prefix,
                                 NamePart(text));
        CheckName(table, axis.key, "problem", next.name);
      }
    }
    problems = std::move(expanded);
  }
  for (auto a = problems.begin(); a != problems.end(); ++a) {
    for (auto b = problems.begin(); b != a; ++b) {
      if (a->name == b->name) {
        throw InputError(
            fmt::format("{}: two problems have the name '{}': axis values must "
                        "differ in more than case and punctuation",
                        a->workload.Where(),
                        a->name));
      }
    }
  }
  return problems;
}

std::vector<ProblemSpec> ReadProblems(const TomlTable& root) {
  ProblemSpec problem;
  problem.backend = root.RequireTable("backend");
  problem.noise = root.GetTable("noise");
  problem.workload = root.GetTable("workload");
  problem.cluster = root.RequireTable("cluster");
  problem.space = root.GetTable("space");
  problem.predictions = root.GetTable("predictions");
  problem.rules_folder = root.Folder() / "rules";
  return ExpandAxes(problem);
}

int ReadRepeats(const TomlTable& experiment,
                const ManifestOverrides& overrides) {
  const int repeats = experiment.GetIntIn("repeats", 1, 1);
  if (!overrides.repeats) {
    return repeats;
  }
  if (*overrides.repeats < 1) {
    throw InputError(
        fmt::format("--repeats {}: must be at least 1", *overrides.repeats));
  }
  return *overrides.repeats;
}

std::vector<std::string> ReadFigures(const TomlTable& experiment) {
  const std::vector<std::string>& known = plots::FigureNames();
  for (const auto& [text, table] : experiment.Alternatives("figures")) {
    if (!table.Has("figures")) {
      return {};
    }
    const std::string name = table.RequireString("figures");
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      table.Fail("figures",
                 fmt::format("unknown figure '{}'{}; known here: {}",
                             name,
                             common::DidYouMean(name, known),
                             fmt::join(known, ", ")));
    }
  }
  return experiment.GetStrings("figures");
}

// Checks the names of the tables. Their readers check the keys.
void CheckTables(const TomlTable& root) {
  const std::vector<std::string> known = {"experiment",
                                          "backend",
                                          "noise",
                                          "workload",
                                          "cluster",
                                          "space",
                                          "predictions",
                                          "budget",
                                          "slurm",
                                          "method"};
  for (const std::string& key : root.Keys()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      root.Fail(key,
                fmt::format("unknown key '{}'{}; known here: {}",
                            key,
                            common::DidYouMean(key, known),
                            fmt::join(known, ", ")));
    }
  }
}

}  // namespace

std::uint64_t Manifest::MethodSeed(const ProblemSpec& problem,
                                   int repeat) const {
  return common::DeriveSeed(fmt::format("method/{}/{}", seed, problem.name),
                            static_cast<std::uint64_t>(repeat));
}

std::uint64_t Manifest::TrialSeed(const ProblemSpec& problem,
                                  int repeat) const {
  return common::DeriveSeed(fmt::format("trial/{}/{}", seed, problem.name),
                            static_cast<std::uint64_t>(repeat));
}

Manifest ReadManifest(const std::filesystem::path& path,
                      const ManifestOverrides& overrides) {
  const TomlTable root = TomlTable::ParseFile(path);
  CheckTables(root);
  const TomlTable experiment = root.RequireTable("experiment");
  Manifest manifest;
  manifest.path = path;
  manifest.name = experiment.GetString("name", path.stem().string());
  CheckName(experiment, "name", "experiment", manifest.name);
  manifest.title = experiment.GetString("title", manifest.name);
  manifest.figures = ReadFigures(experiment);
  manifest.seed = static_cast<std::uint64_t>(experiment.GetInt("seed", 1));
  manifest.repeats = ReadRepeats(experiment, overrides);
  manifest.methods = ReadMethods(root, experiment, overrides);
  manifest.problems = ReadProblems(root);
  manifest.slurm = root.GetTable("slurm");
  const TomlTable budget = root.RequireTable("budget");
  manifest.budget = ReadBudget(budget, IsSimulated(manifest.problems.front()));
  experiment.RejectUnknownKeys();
  budget.RejectUnknownKeys();
  return manifest;
}

}  // namespace harness
