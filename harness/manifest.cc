#include "harness/manifest.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "harness/backends.h"
#include "harness/registry.h"
#include "plots/report.h"
#include "trials/text.h"

namespace harness {
namespace {

using trials::InputError;
using trials::TomlTable;

// A list of a problem that makes several problems of it.
struct Axis {
  TomlTable ProblemSpec::*table;
  std::string_view key;
  std::string_view prefix;  // before the value, where it is a bare number
};

constexpr std::array<Axis, 6> kAxes = {{
    {&ProblemSpec::backend, "scenarios", ""},
    {&ProblemSpec::cluster, "file", ""},
    {&ProblemSpec::workload, "model", ""},
    {&ProblemSpec::workload, "batch_size", "b"},
    {&ProblemSpec::workload, "sequence_length", "s"},
    {&ProblemSpec::workload, "precision", ""},
}};

constexpr std::size_t kMaxNameLength = 64;

// Keys of a method's table that are not options of the method.
constexpr std::array<std::string_view, 2> kOwnKeys = {"base", "label"};

bool IsSafe(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

// An axis value as a part of a name: a path's stem, small letters, '-' for
// every character that is not safe.
std::string NamePart(const std::string& value) {
  const bool is_path = value.find('/') != std::string::npos ||
                       value.ends_with(".json") || value.ends_with(".toml");
  std::string part =
      is_path ? std::filesystem::path(value).stem().string() : value;
  for (char& c : part) {
    if (c >= 'A' && c <= 'Z') {
      c = static_cast<char>(c - 'A' + 'a');
    }
    if (!IsSafe(c)) {
      c = '-';
    }
  }
  return part;
}

void CheckName(const TomlTable& table,
               std::string_view key,
               std::string_view what,
               const std::string& name) {
  if (!IsSafeName(name)) {
    table.Fail(key,
               fmt::format("{} '{}' cannot be a folder name: use 1 to {} of "
                           "a-z, 0-9, '.', '_', '-', a letter or digit first, "
                           "and not 'figures'",
                           what,
                           name,
                           kMaxNameLength));
  }
}

// A whole number that must be positive and not beyond an int.
int PositiveInt(const TomlTable& table,
                std::string_view key,
                std::int64_t value) {
  if (value < 1 || value > std::numeric_limits<int>::max()) {
    table.Fail(key,
               fmt::format("{} = {}: must be a whole number > 0", key, value));
  }
  return static_cast<int>(value);
}

// `simulated`: the backend's clock is virtual.
Budget ReadBudget(const TomlTable& table, bool simulated) {
  Budget budget;
  if (table.Has("time_minutes")) {
    const double minutes = table.RequireDouble("time_minutes");
    if (!(minutes > 0.0) || !std::isfinite(minutes)) {
      table.Fail("time_minutes",
                 fmt::format("time_minutes = {}: must be a number > 0",
                             trials::ExactText(minutes)));
    }
    budget.time_s = minutes * 60.0;
  }
  if (table.Has("trials")) {
    budget.trials = PositiveInt(table, "trials", table.RequireInt("trials"));
  }
  if (std::isinf(budget.time_s) && budget.trials == 0) {
    throw InputError(fmt::format(
        "{}: a budget is missing: give time_minutes or trials, or both",
        table.Where()));
  }
  budget.q_max = PositiveInt(table, "q_max", table.RequireInt("q_max"));
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
  problem.rules_folder = root.Folder() / "rules";
  return ExpandAxes(problem);
}

// Every list in a method's table makes variants of the method, named
// METHOD-OPTION-VALUE.
std::vector<MethodSpec> ExpandVariants(const MethodSpec& method) {
  std::vector<MethodSpec> variants{method};
  for (const std::string& key : method.options.Keys()) {
    if (std::find(kOwnKeys.begin(), kOwnKeys.end(), key) != kOwnKeys.end()) {
      continue;
    }
    std::vector<MethodSpec> expanded;
    for (const MethodSpec& variant : variants) {
      for (auto& [text, table] : variant.options.Alternatives(key)) {
        MethodSpec& next = expanded.emplace_back(variant);
        next.options = table;
        if (!text.empty()) {
          next.name += fmt::format("-{}-{}", NamePart(key), NamePart(text));
          next.label += fmt::format(" {}={}", key, text);
        }
      }
    }
    variants = std::move(expanded);
  }
  return variants;
}

std::vector<std::string> MethodNames(const TomlTable& tables) {
  std::vector<std::string> names;
  for (const MethodEntry& entry : Methods()) {
    names.push_back(entry.name);
  }
  for (const std::string& name : tables.Keys()) {
    if (FindMethod(name) == nullptr) {
      names.push_back(name);
    }
  }
  return names;
}

[[noreturn]] void UnknownMethod(const std::string& where,
                                const std::string& name,
                                const std::vector<std::string>& known) {
  throw InputError(fmt::format("{}: unknown method '{}'{}; known here: {}",
                               where,
                               name,
                               trials::DidYouMean(name, known),
                               fmt::join(known, ", ")));
}

// One method by name: a table [method.NAME], the registry's, or both.
MethodSpec ReadMethod(const TomlTable& tables, const std::string& name) {
  MethodSpec method;
  method.name = name;
  if (tables.Has(name)) {
    method.options = tables.GetTable(name);
  }
  method.base = method.options.GetString("base", name);
  const MethodEntry* entry = FindMethod(method.base);
  if (entry == nullptr) {
    const std::vector<std::string> known = MethodNames(TomlTable());
    if (method.options.Has("base")) {
      UnknownMethod(method.options.Where("base"), method.base, known);
    }
    throw InputError(fmt::format(
        "{}: '{}' is no method{}: name one of {}, or say what it is a variant "
        "of with base = \"...\"",
        method.options.Where(),
        name,
        trials::DidYouMean(name, known),
        fmt::join(known, ", ")));
  }
  CheckName(tables, name, "method", name);
  method.label = method.options.GetString(
      "label", method.base == name ? entry->label : name);
  return method;
}

// Appends a method and its variants; a name comes only once.
void AppendMethod(const TomlTable& tables,
                  const std::string& name,
                  const std::string& where,
                  std::vector<MethodSpec>& methods) {
  const std::vector<std::string> known = MethodNames(tables);
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    UnknownMethod(where, name, known);
  }
  for (MethodSpec& variant : ExpandVariants(ReadMethod(tables, name))) {
    CheckName(tables, name, "method", variant.name);
    const bool twice = std::any_of(
        methods.begin(), methods.end(), [&variant](const MethodSpec& other) {
          return other.name == variant.name;
        });
    if (twice) {
      throw InputError(fmt::format(
          "{}: method '{}' comes twice: remove one", where, variant.name));
    }
    methods.push_back(std::move(variant));
  }
}

std::vector<MethodSpec> ReadMethods(const TomlTable& root,
                                    const TomlTable& experiment,
                                    const ManifestOverrides& overrides) {
  (void)experiment.Has("methods");  // known, also when it is overridden
  const TomlTable tables = root.GetTable("method");
  // Tables of methods that are not asked for are read too: they may be wrong.
  std::vector<MethodSpec> methods;
  for (const std::string& name : tables.Keys()) {
    AppendMethod(tables, name, tables.Where(name), methods);
  }
  methods.clear();
  if (!overrides.methods.empty()) {
    for (const std::string& name : overrides.methods) {
      AppendMethod(tables, name, "--methods", methods);
    }
    return methods;
  }
  if (!experiment.Has("methods")) {
    throw InputError(
        fmt::format("{}: experiment.methods is missing: name at least one, as "
                    "in methods = [\"random\", \"oppa\"]",
                    experiment.Where()));
  }
  for (const auto& [text, table] : experiment.Alternatives("methods")) {
    AppendMethod(tables,
                 table.RequireString("methods"),
                 table.Where("methods"),
                 methods);
  }
  return methods;
}

int ReadRepeats(const TomlTable& experiment,
                const ManifestOverrides& overrides) {
  const int repeats =
      PositiveInt(experiment, "repeats", experiment.GetInt("repeats", 1));
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
                             trials::DidYouMean(name, known),
                             fmt::join(known, ", ")));
    }
  }
  return experiment.GetStrings("figures");
}

// The tables of a manifest. What stands in each is checked by who reads it.
void CheckTables(const TomlTable& root) {
  const std::vector<std::string> known = {"experiment",
                                          "backend",
                                          "noise",
                                          "workload",
                                          "cluster",
                                          "space",
                                          "budget",
                                          "slurm",
                                          "method"};
  for (const std::string& key : root.Keys()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      root.Fail(key,
                fmt::format("unknown key '{}'{}; known here: {}",
                            key,
                            trials::DidYouMean(key, known),
                            fmt::join(known, ", ")));
    }
  }
}

std::string FileContent(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

bool IsSafeName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameLength &&
         std::all_of(name.begin(), name.end(), IsSafe) && name[0] != '.' &&
         name[0] != '_' && name[0] != '-' && name != "figures";
}

std::uint64_t Manifest::MethodSeed(const ProblemSpec& problem,
                                   int repeat) const {
  return trials::DeriveSeed(fmt::format("method/{}/{}", seed, problem.name),
                            static_cast<std::uint64_t>(repeat));
}

std::uint64_t Manifest::TrialSeed(const ProblemSpec& problem,
                                  int repeat) const {
  return trials::DeriveSeed(fmt::format("trial/{}/{}", seed, problem.name),
                            static_cast<std::uint64_t>(repeat));
}

std::string Manifest::RunHash(const ProblemSpec& problem,
                              const MethodSpec& method) const {
  std::string text = fmt::format("seed {}\nbudget {} {} {} {}\nmethod {}\n",
                                 seed,
                                 trials::ExactText(budget.time_s),
                                 budget.trials,
                                 budget.q_max,
                                 budget.charge_thinking,
                                 method.base);
  std::istringstream options(method.options.CanonicalText());
  for (std::string line; std::getline(options, line);) {
    if (!line.starts_with("label = ")) {
      text += line + "\n";
    }
  }
  const auto add = [&text](std::string_view heading, const TomlTable& table) {
    text += fmt::format("[{}]\n{}", heading, table.CanonicalText());
  };
  add("backend", problem.backend);
  add("noise", problem.noise);
  add("workload", problem.workload);
  add("cluster", problem.cluster);
  add("space", problem.space);
  for (const std::filesystem::path& file : InputFiles(problem)) {
    text +=
        fmt::format("file {}\n{}", file.filename().string(), FileContent(file));
  }
  return fmt::format("{:016x}{:016x}",
                     trials::DeriveSeed(text, 0),
                     trials::DeriveSeed(text + "\n", 1));
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
  const BackendEntry* backend =
      FindBackend(manifest.problems.front().backend.GetString("type", ""));
  manifest.budget =
      ReadBudget(budget, backend == nullptr || backend->simulated);
  experiment.RejectUnknownKeys();
  budget.RejectUnknownKeys();
  return manifest;
}

}  // namespace harness
