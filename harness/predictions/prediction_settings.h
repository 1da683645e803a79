// The settings of a source of predictions, and a source with a model.

#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/toml_table.h"
#include "harness/prediction_source.h"
#include "trials/predictions.h"
#include "trials/search_space.h"
#include "trials/tables/table_settings.h"

namespace harness {

// One source of predictions: the keys of a table [predictions.NAME], and the
// keys of [predictions] that this table lacks.
struct PredictionSettings {
  // The machine to simulate. Of several clusters, the first one whose GPU has
  // another architecture than the problem's is used, or else the last one.
  std::vector<std::string> clusters;  // names or files; empty: as the problem
  // Without the measured rates of collectives that the cluster has.
  bool constant_rates = false;
  std::string framework;  // name or file; "": as the problem
  std::string facts;  // of a table, a name or file; "": those its name selects
  // The method whose own model predicts (ConfiguredMethod::estimates) instead
  // of the simulator, and its options; "": none.
  std::string planner;
  common::TomlTable planner_options;
  // Folders of results of earlier jobs, whose trials predict instead of the
  // simulator; empty: none.
  std::vector<std::filesystem::path> from;
  // A file of surrogates::ToToml, which corrects simulated times; "": none.
  std::string calibration;
  // Take the calibration or the earlier jobs although RefuseForeign would not.
  bool accept_foreign = false;
  // Factors on the predictions, which make them deliberately worse: from 1e-3
  // to 1e3.
  double memory_factor = 1.0;
  double time_factor = 1.0;
  // Gives each candidate the predictions of another one, drawn at random: its
  // time and its memory come from the same candidate.
  bool permute = false;
  common::TomlTable table;  // for messages
};

// The settings of a source; "" is the table [predictions].
// Errors: throws InputError for an unknown name, listing the known ones, for an
// invalid value and for a table with both a planner and a simulated machine.
[[nodiscard]] PredictionSettings ReadPredictionSettings(
    const common::TomlTable& predictions, const std::string& name);

// The files of the settings' cluster and framework; "" where they name none.
// `architecture` is that of the problem's GPU.
// Errors: throws InputError for a file that does not exist.
[[nodiscard]] std::filesystem::path ClusterFile(
    const PredictionSettings& settings, const std::string& architecture);
[[nodiscard]] std::filesystem::path FrameworkFile(
    const PredictionSettings& settings);

// The sizes of a measured table's scenarios (experiments/validation/): those
// that the settings name, else those that the table's name selects, else
// nothing.
// Errors: throws InputError for a name of no measured table.
[[nodiscard]] std::optional<trials::TableSettings> FindFacts(
    const PredictionSettings& settings, const std::filesystem::path& table,
    const std::string& scenario);

// The facts of this table.
// Errors: throws InputError with a remedy also if there are none.
[[nodiscard]] trials::TableSettings FactsOf(const PredictionSettings& settings,
                                            const std::filesystem::path& table,
                                            const std::string& scenario);

// What the settings change about the predictions, for display: "; memory x
// 0.5".
[[nodiscard]] std::string Changes(const PredictionSettings& settings);

// Gives candidates without a number, NaN, the geometric mean of their cell
// (SearchSpace::cells), or of all candidates. Returns how many there are.
int FillRejected(const std::vector<std::vector<int>>& cells,
                 std::vector<double>& values);

// A model that predicts candidates.
struct PredictingModel {
  std::string description;  // "simulator of ..."
  std::string identity;     // what its numbers depend on
  std::string missing;  // "are invalid there", of candidates without numbers
  std::string if_all_missing;  // the error where no candidate has numbers
  // NaN where it has no numbers; without a source.
  std::function<trials::Predictions()> predict;
};

// The model's predictions with the changes of the settings. A candidate without
// numbers gets the geometric means of those with the same dp, tp and pp, or of
// all if those have none, too. Predictions::source counts such candidates.
// `problem` seeds permutations. `space` must outlive the result.
// Errors: PredictionSource::predict throws InputError if no candidate has
// numbers.
[[nodiscard]] PredictionSource SourceOf(const PredictionSettings& settings,
                                        const std::string& problem,
                                        const trials::SearchSpace& space,
                                        PredictingModel model);

}  // namespace harness
