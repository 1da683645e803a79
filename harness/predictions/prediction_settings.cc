#include "harness/predictions/prediction_settings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/hash.h"
#include "common/ranges.h"
#include "common/text.h"
#include "common/toml_table.h"
#include "harness/predictions/predictions.h"
#include "trials/cluster.h"
#include "trials/data_folder.h"

namespace harness {
namespace {

using common::InputError;
using common::TomlTable;

// The keys that describe a simulated machine.
constexpr std::array<std::string_view, 4> kMachine = {"cluster", "framework",
                                                      "facts", "calibration"};

// What predicts: a planner, earlier jobs or a machine. One that a table names
// replaces an inherited one.
void ReadModel(const TomlTable& table, PredictionSettings& settings) {
  const bool planner = table.Has("planner");
  const bool from = table.Has("from");
  const bool alone = planner || from;
  const auto machine = std::ranges::find_if(
      kMachine, [&](std::string_view key) { return table.Has(key); });
  if (planner && from) {
    table.Fail("from",
               "a planner and earlier jobs each predict alone: remove "
               "planner or from");
  }
  if (alone && machine != kMachine.end()) {
    table.Fail(*machine,
               fmt::format("{} is for the simulator, and {} predicts without "
                           "it: remove one of them",
                           *machine,
                           planner ? fmt::format("planner = '{}'",
                                                 table.RequireString("planner"))
                                   : "from"));
  }
  if (alone || machine != kMachine.end()) {
    settings.planner.clear();
    settings.from.clear();
  }
  if (alone) {
    settings.clusters.clear();
    settings.framework.clear();
    settings.facts.clear();
    settings.calibration.clear();
  }
  if (planner) {
    settings.planner = table.RequireString("planner");
    settings.planner_options = TomlTable();
  }
  if (from) {
    for (const std::string& folder : table.GetStrings("from")) {
      settings.from.push_back(table.Folder() / folder);
    }
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
  ReadModel(table, settings);
  if (table.Has("cluster")) {
    settings.clusters = table.GetStrings("cluster");
  }
  settings.constant_rates =
      table.GetBool("constant_rates", settings.constant_rates);
  settings.framework = table.GetString("framework", settings.framework);
  settings.facts = table.GetString("facts", settings.facts);
  if (table.Has("calibration")) {
    settings.calibration =
        (table.Folder() / table.RequireString("calibration")).string();
  }
  settings.accept_foreign =
      table.GetBool("accept_foreign", settings.accept_foreign);
  settings.memory_factor =
      table.GetDoubleIn("memory_factor", settings.memory_factor, 1e-3, 1e3);
  settings.time_factor =
      table.GetDoubleIn("time_factor", settings.time_factor, 1e-3, 1e3);
  settings.permute = table.GetBool("permute", settings.permute);
}

// The keys of [predictions] that are settings. Every other key is a source.
constexpr std::array<std::string_view, 12> kSettings = {
    "cluster",         "constant_rates", "framework",     "facts",
    "calibration",     "planner",        "from",          "accept_foreign",
    "planner_options", "time_factor",    "memory_factor", "permute"};

// The path of a data file that a setting names.
std::filesystem::path DataFile(const PredictionSettings& settings,
                               std::string_view key, const std::string& kind,
                               const std::string& name) {
  return settings.table.At(key, [&] {
    return trials::FindDataFile(kind, name, settings.table.Folder());
  });
}

// The geometric mean of the values that are not NaN; NaN if none is.
double MeanOfKnown(const std::vector<double>& values,
                   const std::vector<int>& members) {
  double sum = 0.0;
  int known = 0;
  for (const int i : members) {
    const double value = values[i];
    if (!std::isnan(value)) {
      sum += std::log(value);
      ++known;
    }
  }
  return std::exp(sum / known);
}

}  // namespace

int FillRejected(const std::vector<std::vector<int>>& cells,
                 std::vector<double>& values) {
  const double mean = MeanOfKnown(values, common::Indices(values.size()));
  int rejected = 0;
  for (const std::vector<int>& cell : cells) {
    const double mean_of_cell = MeanOfKnown(values, cell);
    for (const int i : cell) {
      double& value = values[i];
      if (std::isnan(value)) {
        value = std::isnan(mean_of_cell) ? mean : mean_of_cell;
        ++rejected;
      }
    }
  }
  return rejected;
}

namespace {

// A random permutation of 0 ... size - 1: Fisher and Yates' shuffle, written
// out because std::shuffle differs between libraries.
std::vector<std::size_t> Permutation(std::size_t size, std::uint64_t seed) {
  auto order = common::Indices<std::size_t>(size);
  std::mt19937_64 random(seed);
  for (std::size_t i = size; i > 1; --i) {
    std::swap(order[i - 1], order[random() % i]);
  }
  return order;
}

void Permute(const std::vector<std::size_t>& order,
             std::vector<double>& values) {
  std::vector<double> permuted(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    permuted[i] = values[order[i]];
  }
  values = std::move(permuted);
}

// As the predictions to which these are ratios; empty: there are none.
void FillAndPermute(const std::vector<std::vector<int>>& cells,
                    const std::vector<std::size_t>& order,
                    std::vector<double>& ratios) {
  if (ratios.empty()) {
    return;
  }
  FillRejected(cells, ratios);
  if (!order.empty()) {
    Permute(order, ratios);
  }
}

}  // namespace

std::vector<std::string> PredictionNames(const TomlTable& predictions) {
  std::vector<std::string> names = {""};
  for (const std::string& key : predictions.Keys()) {
    if (!common::Contains(kSettings, key)) {
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
  if (!common::Contains(known, name)) {
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
    trials::TableSettings facts = trials::ReadTableSettings(
        DataFile(settings, "facts", "validation", settings.facts));
    if (facts.kind != kMeasured) {
      settings.table.Fail("facts",
                          fmt::format("'{}' describes a table of another kind",
                                      settings.facts));
    }
    return facts;
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

std::string Changes(const PredictionSettings& settings) {
  std::string text;
  if (settings.time_factor != 1.0) {
    text += fmt::format("; time x {}", settings.time_factor);
  }
  if (settings.memory_factor != 1.0) {
    text += fmt::format("; memory x {}", settings.memory_factor);
  }
  if (settings.permute) {
    text += "; permuted";
  }
  return text;
}

PredictionSource SourceOf(const PredictionSettings& settings,
                          const std::string& problem,
                          const trials::SearchSpace& space,
                          PredictingModel model) {
  PredictionSource source;
  source.description = model.description + Changes(settings);
  source.identity =
      fmt::format("memory {}\ntime {}\npermute {}\n{}",
                  common::ExactText(settings.memory_factor),
                  common::ExactText(settings.time_factor),
                  settings.permute ? problem : "", model.identity);
  source.predict = [settings, problem, &space, model = std::move(model),
                    description = source.description] {
    Predictions predictions = model.predict();
    for (double& time_s : predictions.step_time_s) {
      time_s *= settings.time_factor;
    }
    for (double& bytes : predictions.peak_memory_bytes) {
      bytes *= settings.memory_factor;
    }
    const int missing = FillRejected(space.cells(), predictions.step_time_s);
    FillRejected(space.cells(), predictions.peak_memory_bytes);
    if (missing == space.size()) {
      throw InputError(
          fmt::format("{}: {}", settings.table.Where(), model.if_all_missing));
    }
    predictions.source = description;
    if (missing > 0) {
      predictions.source += fmt::format("; {} of {} candidates {}", missing,
                                        space.size(), model.missing);
    }
    std::vector<std::size_t> order;
    if (settings.permute) {
      order = Permutation(static_cast<std::size_t>(space.size()),
                          common::DeriveSeed("predictions/" + problem));
      Permute(order, predictions.step_time_s);
      Permute(order, predictions.peak_memory_bytes);
    }
    if (predictions.alternatives) {
      predictions.alternatives = [cells = space.cells(), order,
                                  compute = predictions.alternatives] {
        auto alternatives = compute();
        for (Predictions::Alternative& each : alternatives) {
          FillAndPermute(cells, order, each.slowdown);
          FillAndPermute(cells, order, each.memory);
        }
        return alternatives;
      };
    }
    return predictions;
  };
  return source;
}

}  // namespace harness
