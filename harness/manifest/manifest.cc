#include "harness/manifest/manifest.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/error.h"
#include "common/files.h"
#include "common/hash.h"
#include "common/ranges.h"
#include "common/text.h"
#include "common/toml_table.h"
#include "harness/names.h"
#include "harness/testbeds/testbeds.h"
#include "plots/report.h"
#include "trials/data_folder.h"

namespace harness {
namespace {

using common::InputError;
using common::TomlTable;

// The setting that selects another backend than the manifest's.
constexpr std::string_view kUseBackend = "backend.use=";

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

// `simulated`: the clock of the testbed is virtual.
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
  constexpr int kMostInFlight = 256;
  budget.in_flight = table.GetIntIn("in_flight", 1, 1, kMostInFlight);
  constexpr int kMostSteps = 1'000'000;  // a trial keeps the time of each
  budget.q_max = table.RequireIntIn("q_max", 1, kMostSteps);
  budget.charge_thinking = table.GetBool("charge_thinking", !simulated);
  if (table.Has("stop_when")) {
    const std::string text = table.RequireString("stop_when");
    table.At("stop_when", [&] { budget.stop_when.emplace(text); });
  }
  return budget;
}

Starts ReadStarts(const TomlTable& experiment) {
  Starts starts;
  starts.configs = experiment.GetStrings("start");
  starts.common = experiment.GetIntIn("common_starts", 0, 0);
  starts.where = experiment.Where(
      starts.configs.empty() && starts.common > 0 ? "common_starts" : "start");
  return starts;
}

// A typing error in a manifest must not fill the memory.
constexpr std::size_t kMostProblems = 10'000;
constexpr std::size_t kMostRuns = 1'000'000;

// Replaces every list that is an axis by its elements, one problem for each
// combination, the first axis outermost.
std::vector<ProblemSpec> ExpandAxes(const ProblemSpec& base) {
  const TestbedEntry* testbed = FindTestbed(base.backend.GetString("type", ""));
  std::vector<ProblemSpec> problems{base};
  for (const Axis& axis : kAxes) {
    const TomlTable& values = base.*axis.table;
    if (testbed != nullptr && testbed->measured && axis.key != "scenarios" &&
        values.Alternatives(axis.key).size() > 1) {
      values.Fail(axis.key,
                  fmt::format("the table is of one job, and its rows would "
                              "count once for every {}: give one",
                              axis.key));
    }
    std::vector<ProblemSpec> expanded;
    for (const ProblemSpec& problem : problems) {
      for (auto& [text, table] : (problem.*axis.table).Alternatives(axis.key)) {
        ProblemSpec& next = expanded.emplace_back(problem);
        next.*axis.table = table;
        if (text.empty()) {
          continue;
        }
        if (expanded.size() > kMostProblems) {
          table.Fail(axis.key,
                     fmt::format("the lists of {} and other keys make more "
                                 "than {} problems: shorten them",
                                 axis.key, kMostProblems));
        }
        next.name += fmt::format("{}{}{}", next.name.empty() ? "" : "-",
                                 axis.prefix, NamePart(text));
        CheckName(table, axis.key, "problem", next.name);
      }
    }
    problems = std::move(expanded);
  }
  std::set<std::string_view> names;
  for (const ProblemSpec& problem : problems) {
    if (!names.insert(problem.name).second) {
      throw InputError(
          fmt::format("{}: two problems have the name '{}': axis values must "
                      "differ in more than case and punctuation",
                      problem.workload.Where(), problem.name));
    }
  }
  return problems;
}

// The value of --set backend.use=TYPE; "" without it.
std::string UsedBackend(const ManifestOverrides& overrides) {
  std::string type;
  for (const std::string& setting : overrides.settings) {
    if (setting.starts_with(kUseBackend)) {
      type = setting.substr(kUseBackend.size());
    }
  }
  if (!type.empty() && FindTestbed(type) == nullptr) {
    throw InputError(
        fmt::format("--set {}{}: {}", kUseBackend, type,
                    common::UnknownName("backend", type, TestbedNames())));
  }
  return type;
}

// The manifest with its settings, whose tables are known; their readers check
// the keys. `use`: see UsedBackend; becomes "" if it is
// the manifest's own backend.
TomlTable ParseManifest(const std::filesystem::path& path,
                        const ManifestOverrides& overrides, std::string& use) {
  std::vector<std::string> settings = overrides.settings;
  std::erase_if(settings, [](const std::string& setting) {
    return setting.starts_with(kUseBackend);
  });
  TomlTable root = TomlTable::ParseFile(path, settings);
  if (!use.empty() &&
      root.RequireTable("backend").GetString("type", "") == use) {
    use.clear();
  }
  if (!use.empty()) {
    settings.push_back(fmt::format("backend.{}.type={}", use, use));
    root = TomlTable::ParseFile(path, settings);
  }
  root.RequireKeys({"experiment", "backend", "noise", "workload", "cluster",
                    "space", "predictions", "budget", "slurm", "method"});
  return root;
}

// [backend], or its table `use` for another backend.
TomlTable ReadBackend(const TomlTable& root, const std::string& use) {
  TomlTable backend = root.RequireTable("backend");
  if (!use.empty()) {
    return backend.RequireTable(use);
  }
  for (const std::string& other : TestbedNames()) {
    (void)backend.GetTable(other).Leaves();  // a key, but of no use here
  }
  return backend;
}

trials::Objective ReadObjective(const TomlTable& experiment) {
  trials::Objective objective = trials::Objective::kTime;
  if (experiment.Has("objective")) {
    const std::string name = experiment.RequireString("objective");
    try {
      trials::FromText(name, objective);
    } catch (const InputError&) {
      experiment.Fail("objective",
                      fmt::format("unknown objective '{}'; known: {}", name,
                                  fmt::join(NamesOf(objective), ", ")));
    }
  }
  return objective;
}

std::vector<ProblemSpec> ReadProblems(const TomlTable& root,
                                      const TomlTable& experiment,
                                      const std::string& use) {
  ProblemSpec problem;
  problem.objective = ReadObjective(experiment);
  problem.backend = ReadBackend(root, use);
  if (IsSimulated(problem) || use.empty()) {
    problem.noise = root.GetTable("noise");
  }
  problem.workload = root.GetTable("workload");
  problem.cluster = root.RequireTable("cluster");
  problem.space = root.GetTable("space");
  problem.predictions = root.GetTable("predictions");
  problem.rules_folder = root.Folder() / "rules";
  if (!common::EntryExists(problem.rules_folder)) {
    problem.rules_folder = trials::ExperimentsFolder() / "rules";
  }
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

// The held-out problems: every other one from the second on ("odd"), or those
// of a list.
std::vector<std::string> ReadHeldOut(const TomlTable& experiment,
                                     const std::vector<ProblemSpec>& problems) {
  const auto known = common::NamesIn(problems, &ProblemSpec::name);
  std::vector<std::string> held_out = experiment.GetStrings("held_out");
  if (held_out.size() == 1 && held_out.front() == "odd") {
    held_out.clear();
    for (std::size_t p = 1; p < known.size(); p += 2) {
      held_out.push_back(known[p]);
    }
  }
  for (const std::string& name : held_out) {
    if (!common::Contains(known, name)) {
      experiment.Fail("held_out",
                      fmt::format("unknown problem '{}'{}; known: \"odd\" "
                                  "for every other problem, {}",
                                  name, common::DidYouMean(name, known),
                                  fmt::join(known, ", ")));
    }
  }
  if (experiment.Has("held_out") &&
      (held_out.empty() || held_out.size() >= problems.size())) {
    experiment.Fail("held_out",
                    fmt::format("{} of {} problems are held out: at least one "
                                "must be, and one must not",
                                held_out.size(), problems.size()));
  }
  return held_out;
}

// Refuses settings that could run held-out problems as other ones.
void CheckSettings(const TomlTable& experiment, const ProblemSpec& problem,
                   const ManifestOverrides& overrides) {
  const auto is_set = [](const TomlTable& table, std::string_view key) {
    return table.Has(key) && table.Where(key).starts_with("--set ");
  };
  if (is_set(experiment, "held_out")) {
    experiment.Fail("held_out",
                    "held-out problems are a property of the manifest; "
                    "--held-out includes them");
  }
  if (!experiment.Has("held_out") || overrides.held_out) {
    return;
  }
  for (const Axis& axis : kAxes) {
    const TomlTable& table = problem.*axis.table;
    if (is_set(table, axis.key)) {
      table.Fail(axis.key,
                 "the manifest holds problems out, and this key selects "
                 "problems: only a run with --held-out can set it");
    }
  }
}

void CheckSize(const Manifest& manifest, const TomlTable& experiment) {
  const std::size_t runs_per_repeat =
      std::max<std::size_t>(manifest.methods.size(), 1) *
      std::max<std::size_t>(manifest.problems.size(), 1);
  if (static_cast<std::size_t>(manifest.repeats) >
      kMostRuns / runs_per_repeat) {
    throw InputError(fmt::format(
        "{}: {} repeats of {} methods and {} problems are more "
        "than {} runs",
        experiment.Where(), manifest.repeats, manifest.methods.size(),
        manifest.problems.size(), kMostRuns));
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

std::string ToText(const Budget& budget) {
  std::string text;
  if (std::isfinite(budget.time_s)) {
    text = fmt::format("{:g} min", budget.time_s / 60.0);
  }
  if (budget.trials > 0) {
    text +=
        fmt::format("{}{} trials", text.empty() ? "" : " or ", budget.trials);
  }
  text += fmt::format(", {} steps a trial", budget.q_max);
  if (budget.in_flight > 1) {
    text += fmt::format(", {} trials at once", budget.in_flight);
  }
  if (budget.stop_when) {
    text += fmt::format("; stops when {}", budget.stop_when->ToString());
  }
  return text;
}

std::string HeldOutNote(const Manifest& manifest) {
  const std::size_t held_out = manifest.held_out.size();
  if (held_out == 0) {
    return "";
  }
  return manifest.runs_held_out
             ? fmt::format(
                   "{}: {} of {} problems are held out: results on them must "
                   "not be used to choose methods or settings\n",
                   manifest.name, held_out, manifest.problems.size())
             : fmt::format(
                   "{}: development half: {} of {} problems; --held-out (make "
                   "HELD_OUT=1) includes the held-out half\n",
                   manifest.name, manifest.problems.size(),
                   manifest.problems.size() + held_out);
}

Manifest ReadManifest(const std::filesystem::path& path,
                      const ManifestOverrides& overrides) {
  std::string use = UsedBackend(overrides);
  const TomlTable root = ParseManifest(path, overrides, use);
  const TomlTable experiment = root.RequireTable("experiment");
  const std::string name = experiment.GetString("name", path.stem().string());
  Manifest manifest;
  manifest.path = path;
  manifest.name = use.empty() ? name : name + "-" + use;
  manifest.title = experiment.GetString("title", manifest.name);
  manifest.figures =
      experiment.GetSomeOf("figures", "figure", plots::FigureNames());
  manifest.seed = static_cast<std::uint64_t>(experiment.GetInt("seed", 1));
  manifest.settings = overrides.settings;
  manifest.runs_held_out = overrides.held_out;
  manifest.slurm = root.GetTable("slurm");
  CheckName(experiment, "name", "experiment", name);
  manifest.repeats = ReadRepeats(experiment, overrides);
  manifest.starts = ReadStarts(experiment);
  manifest.methods = ReadMethods(root, experiment, overrides);
  manifest.problems = ReadProblems(root, experiment, use);
  manifest.simulated = IsSimulated(manifest.problems.front());
  CheckSettings(experiment, manifest.problems.front(), overrides);
  manifest.held_out = ReadHeldOut(experiment, manifest.problems);
  if (!overrides.held_out) {
    std::erase_if(manifest.problems, [&](const ProblemSpec& problem) {
      return common::Contains(manifest.held_out, problem.name);
    });
  }
  CheckSize(manifest, experiment);
  const TomlTable budget = root.RequireTable("budget");
  manifest.budget = ReadBudget(budget, manifest.simulated);
  experiment.RejectUnknownKeys();
  budget.RejectUnknownKeys();
  return manifest;
}

}  // namespace harness
