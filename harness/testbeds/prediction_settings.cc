// The settings of predictions: their table, and the files that it names.

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/text.h"
#include "harness/testbeds/predictions.h"
#include "trials/data_folder.h"

namespace harness {
namespace {

using common::InputError;
using common::TomlTable;

double ReadFactor(const TomlTable& table, std::string_view key,
                  double otherwise) {
  const double factor = table.GetDouble(key, otherwise);
  if (!(factor >= 1e-3 && factor <= 1e3)) {
    table.Fail(key, fmt::format("{} = {}: must be a number from 0.001 to 1000",
                                key, common::ExactText(factor)));
  }
  return factor;
}

// The keys that describe a simulated machine.
constexpr std::array<std::string_view, 3> kMachine = {"cluster", "framework",
                                                      "facts"};

// A planner replaces an inherited machine, and a machine an inherited planner.
void ReadPlanner(const TomlTable& table, PredictionSettings& settings) {
  for (const std::string_view key : kMachine) {
    if (!table.Has(key)) {
      continue;
    }
    if (table.Has("planner")) {
      table.Fail(key, fmt::format("{} is for the simulator, and planner = '{}' "
                                  "predicts without it: remove one of them",
                                  key, table.RequireString("planner")));
    }
    settings.planner.clear();
  }
  if (table.Has("planner")) {
    settings.clusters.clear();
    settings.framework.clear();
    settings.facts.clear();
    settings.planner = table.RequireString("planner");
    settings.planner_options = TomlTable();
  }
  if (table.Has("planner_options")) {
    if (settings.planner.empty()) {
      table.Fail("planner_options",
                 "these are the options of a planner: add planner = \"NAME\", "
                 "a method with a model of its own");
    }
    settings.planner_options = table.GetTable("planner_options");
  }
}

// Overrides the settings that the table has.
void ReadKeys(const TomlTable& table, PredictionSettings& settings) {
  settings.table = table;
  ReadPlanner(table, settings);
  if (table.Has("cluster")) {
    settings.clusters = table.GetStrings("cluster");
  }
  settings.framework = table.GetString("framework", settings.framework);
  settings.facts = table.GetString("facts", settings.facts);
  settings.memory_factor =
      ReadFactor(table, "memory_factor", settings.memory_factor);
  settings.time_factor = ReadFactor(table, "time_factor", settings.time_factor);
  settings.permute = table.GetBool("permute", settings.permute);
}

// The keys of [predictions] that are settings. Every other key is a source.
constexpr std::array<std::string_view, 8> kSettings = {
    "cluster",         "framework",     "facts",       "planner",
    "planner_options", "memory_factor", "time_factor", "permute"};

// The path of a data file that a setting names.
std::filesystem::path DataFile(const PredictionSettings& settings,
                               std::string_view key, const std::string& kind,
                               const std::string& name) {
  try {
    return trials::FindDataFile(kind, name, settings.table.Folder());
  } catch (const InputError& e) {
    settings.table.Fail(key, e.what());
  }
}

}  // namespace

std::vector<std::string> PredictionNames(const TomlTable& predictions) {
  std::vector<std::string> names = {""};
  for (const std::string& key : predictions.Keys()) {
    if (std::find(kSettings.begin(), kSettings.end(), key) == kSettings.end()) {
      names.push_back(key);
    }
  }
  return names;
}

PredictionSettings ReadPredictionSettings(const TomlTable& predictions,
                                          const std::string& name) {
  PredictionSettings settings;
  ReadKeys(predictions, settings);
  if (name.empty()) {
    return settings;
  }
  const std::vector<std::string> known = PredictionNames(predictions);
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    throw InputError(fmt::format(
        "{}: there is no table [predictions.{}]{}", predictions.Where(), name,
        known.size() == 1
            ? "; add it"
            : fmt::format("; known: {}",
                          fmt::join(known.begin() + 1, known.end(), ", "))));
  }
  ReadKeys(predictions.GetTable(name), settings);
  return settings;
}

std::filesystem::path ClusterFile(const PredictionSettings& settings,
                                  const std::string& architecture) {
  std::filesystem::path file;
  for (const std::string& name : settings.clusters) {
    file = DataFile(settings, "cluster", "clusters", name);
    if (trials::ReadCluster(file).gpu.architecture != architecture) {
      break;
    }
  }
  return file;
}

std::filesystem::path FrameworkFile(const PredictionSettings& settings) {
  return settings.framework.empty()
             ? std::filesystem::path()
             : DataFile(settings, "framework", "frameworks",
                        settings.framework);
}

std::optional<trials::TableSettings> FindFacts(
    const PredictionSettings& settings, const std::filesystem::path& table,
    const std::string& scenario) {
  constexpr std::string_view kMeasured = "measured";
  if (!settings.facts.empty()) {
    try {
      trials::TableSettings facts = trials::FindTableSettings(settings.facts);
      if (facts.kind != kMeasured) {
        throw InputError(fmt::format("'{}' describes a table of another kind",
                                     settings.facts));
      }
      return facts;
    } catch (const InputError& e) {
      settings.table.Fail("facts", e.what());
    }
  }
  for (trials::TableSettings& facts : trials::AllTableSettings()) {
    if (facts.kind == kMeasured &&
        Describes(facts, table.stem().string(), scenario)) {
      return std::move(facts);
    }
  }
  return std::nullopt;
}

trials::TableSettings FactsOf(const PredictionSettings& settings,
                              const std::filesystem::path& table,
                              const std::string& scenario) {
  if (auto facts = FindFacts(settings, table, scenario)) {
    return *std::move(facts);
  }
  throw InputError(fmt::format(
      "{}: predictions of {} need the sizes of its scenarios: give [workload] "
      "(model, batch_size, sequence_length) in this manifest, or facts = "
      "\"NAME\" in [predictions] for those of experiments/validation/NAME.toml",
      settings.table.Where(), table.string()));
}

}  // namespace harness
