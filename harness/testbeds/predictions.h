// The predictions of candidates that an experiment passes to methods.

#ifndef HARNESS_TESTBEDS_PREDICTIONS_H_
#define HARNESS_TESTBEDS_PREDICTIONS_H_

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/toml_table.h"
#include "harness/spec.h"
#include "trials/cluster.h"
#include "trials/predictions.h"
#include "trials/search_space.h"
#include "trials/tables/table_settings.h"
#include "trials/workload.h"

namespace trials {
struct Framework;
struct SimulatedTraining;
}  // namespace trials

namespace harness {

// One source of predictions: the keys of a table [predictions.NAME], and the
// keys of [predictions] that this table lacks.
struct PredictionSettings {
  // The machine to simulate. Of several clusters, the first one whose GPU has
  // another architecture than the problem's is used, or else the last one.
  std::vector<std::string> clusters;  // names or files; empty: as the problem
  std::string framework;              // name or file; "": as the problem
  std::string facts;  // of a measured table; "": those that its name selects
  // The method whose own model predicts (MethodEntry::estimates) instead of the
  // simulator, and its options; "": none.
  std::string planner;
  common::TomlTable planner_options;
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

// The names of all sources, "" first.
[[nodiscard]] std::vector<std::string> PredictionNames(
    const common::TomlTable& predictions);

// What is simulated: hardware and software.
struct System {
  trials::Cluster cluster;
  std::shared_ptr<const trials::Framework> framework;
  std::string framework_name;                 // for display
  std::vector<std::filesystem::path> inputs;  // its files, for run hashes
};

// The files of the settings' cluster and framework; "" where they name none.
// `architecture` is that of the problem's GPU.
// Errors: throws InputError for a file that does not exist.
[[nodiscard]] std::filesystem::path ClusterFile(
    const PredictionSettings& settings, const std::string& architecture);
[[nodiscard]] std::filesystem::path FrameworkFile(
    const PredictionSettings& settings);

// The machine that the settings describe, where `otherwise` is that of the
// problem: with the same number of GPUs, on as many of its own hosts as needed.
// Its inputs are those of `otherwise` and the files of the description.
// Errors: throws InputError for a file that does not exist or cannot provide
// the GPUs.
[[nodiscard]] System PredictedSystem(const PredictionSettings& settings,
                                     const System& otherwise);

// The sizes of a measured table's scenarios (experiments/validation/): those
// that the settings name, else those that the table's name selects, else
// nothing.
// Errors: throws InputError for a name of no measured table.
[[nodiscard]] std::optional<trials::TableSettings> FindFacts(
    const PredictionSettings& settings, const std::filesystem::path& table,
    const std::string& scenario);

// The same.
// Errors: throws InputError with a remedy also if there are none.
[[nodiscard]] trials::TableSettings FactsOf(const PredictionSettings& settings,
                                            const std::filesystem::path& table,
                                            const std::string& scenario);

// Throws InputError, with the reason and a remedy, if the machine is the one
// that runs the simulated trials: GPUs of the same architecture and a framework
// with the same steps, or step times that are proportional within 0.1% over a
// sample of the candidates that both can run.
void RejectGroundTruth(const PredictionSettings& settings, const System& system,
                       const System& ground_truth,
                       const trials::Workload& workload,
                       const trials::SearchSpace& space);

// A source of predictions for one problem.
struct PredictionSource {
  // The machine and the changes, one line for display: "simulator of
  // a100-selene (8 x A100-SXM4-80GB), megatron-core; memory x 0.5".
  std::string description;
  // Everything that the predictions depend on except the tables of the problem:
  // settings and the contents of files. For run hashes.
  std::string identity;
  std::function<trials::Predictions()> predict;
};

// The source with that name, "" for the table [predictions].
// Errors: throws InputError with a remedy if there is no such source.
using PredictionsByName =
    std::function<PredictionSource(const std::string& name)>;

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

// Candidates that are simulated with one workload on one machine.
struct SimulatedPart {
  std::vector<int> candidates;  // indices into the space
  std::shared_ptr<const trials::SimulatedTraining> training;
};

// Predicts the candidates of the space by simulation; each is in exactly one
// part. One that the simulator rejects has no numbers (see SourceOf).
[[nodiscard]] PredictionSource SimulatedSource(
    const PredictionSettings& settings, const std::string& problem,
    const trials::SearchSpace& space, const System& system,
    std::vector<SimulatedPart> parts);

}  // namespace harness

#endif  // HARNESS_TESTBEDS_PREDICTIONS_H_
