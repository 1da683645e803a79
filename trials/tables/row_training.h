// The training that a row of a table of measurements describes.

#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/csv_table.h"
#include "trials/cluster.h"
#include "trials/parallel_config.h"
#include "trials/simulator/framework.h"
#include "trials/tables/facts.h"
#include "trials/tables/table_settings.h"
#include "trials/workload.h"

namespace trials {

// Choices of the user that replace the settings of a table where they are not
// empty.
struct TableOverrides {
  std::filesystem::path scenarios;
  std::string cluster;          // a file, or a name in experiments/clusters/
  std::string framework;        // a file, or a name in experiments/frameworks/
  bool constant_rates = false;  // without measured rates (Link::rates)
};

// A file with a row of facts per scenario, or nothing.
class ScenarioFacts {
 public:
  ScenarioFacts() = default;
  // Errors: throws InputError for a file without a column 'scenario'.
  explicit ScenarioFacts(const std::filesystem::path& path);

  void AddTo(Facts& facts) const;

 private:
  std::optional<common::CsvTable> csv_;
  std::map<std::string, std::size_t, std::less<>> rows_;  // by scenario
};

// The file of ScenarioFacts that belongs to a table: the given one, else
// <stem>_scenarios.csv in the table's folder, else that of its settings; ""
// if there is none.
[[nodiscard]] std::filesystem::path ScenariosPath(
    const std::filesystem::path& table, const TableSettings& settings,
    const TableOverrides& overrides);

// Clusters and frameworks by name, each read once: in experiments/, otherwise
// in the folder clusters/ or frameworks/ next to that of the table, otherwise
// in that of OPPA_DATA. `overrides` must outlive it.
class MachineLibrary {
 public:
  MachineLibrary(const std::filesystem::path& table,
                 const TableOverrides& overrides)
      : data_folder_(table.parent_path() / ".."), overrides_(overrides) {}

  // The row's cluster with as many hosts as its GPUs need, and its framework:
  // that of a program that an adapter starts ("Megatron-LM"), and `generic` for
  // a name that is neither its nor a file's.
  // Errors: both throw InputError if the name is missing, or unknown where it
  // is no row's framework.
  const Cluster& ClusterOf(const Facts& facts);
  std::pair<std::string, const Framework&> FrameworkOf(const Facts& facts);

  // The files that were taken for frameworks that rows call otherwise, by that
  // name.
  [[nodiscard]] const std::map<std::string, std::string>& assumed() const {
    return assumed_;
  }

  // The files that were read.
  [[nodiscard]] const std::vector<std::filesystem::path>& inputs() const {
    return inputs_;
  }

 private:
  [[nodiscard]] std::filesystem::path Find(const std::string& kind,
                                           const std::string& name) const;
  // The file of a framework that a row names, after a look into assumed_.
  std::filesystem::path FindFramework(const std::string& name);

  std::filesystem::path data_folder_;
  const TableOverrides& overrides_;
  std::map<std::pair<std::string, int>, Cluster> clusters_;
  std::map<std::string, Framework> frameworks_;
  std::map<std::string, std::string> assumed_;
  std::vector<std::filesystem::path> inputs_;
};

// The model that has the few sizes that tables of measurements contain, and
// these properties of its family:
//
//   gpt    biases everywhere, LayerNorm, learned positions, tied embeddings,
//          feed-forward of 4 hidden sizes                       (Megatron, MPT)
//   llama  no biases, RMSNorm, rotary positions, gated feed-forward
//   bert   as gpt with segments and without the causal mask
//
// Required facts: family, layers, hidden_size, attention_heads, sequence_length
// and vocab_size. Optional: kv_heads, head_size, ffn_size, tied_embeddings,
// gated_ffn and dropout.
//
// If the fact `config` names a Hugging Face config.json ("llama-3-70b" in
// experiments/workloads/, or a path), the model is that one; of the facts
// above, only layers, vocab_size, tied_embeddings and dropout then change it.
[[nodiscard]] Model ModelOf(const Facts& facts);

// The model with its global batch, sequence length and precision. The batch is
// dp * micro_batch_size * microbatches if all three are known.
[[nodiscard]] Workload WorkloadOf(const Facts& facts);

// The training of one row.
struct RowTraining {
  Workload workload;
  Cluster cluster;  // of the size of this row
  std::string framework_name;
  Framework framework;
  ParallelConfig config;
};

// The training that the facts describe.
// Errors: throws InputError that names a missing fact, with a remedy.
[[nodiscard]] RowTraining TrainingOf(Facts facts, MachineLibrary& library);

// The facts of a row of a table of measured configurations (of the kind
// "measured", docs/replay_tables.md): its columns have the names of the facts;
// those of MeasuredRow become status, step_time_s and, unless the column is
// peak_memory_gb, peak_memory_bytes.
[[nodiscard]] Facts MeasuredFacts(const TableRow& row);

// Adds what a row does not contain: the facts of its scenario, those that the
// settings have for one of the tokens, and those of the whole table. Replaces
// what the settings correct.
void AddSettings(const ScenarioFacts& scenarios, const TableSettings& settings,
                 const std::vector<std::string>& tokens, Facts& facts);

// Whether the state of a job (docs/validation.md) that a row does not tell is
// the fast one: in every file but the settings' own, whose facts describe its
// jobs.
[[nodiscard]] bool AssumesFast(const TableSettings& settings,
                               const std::filesystem::path& table);
// Adds that state. Call it before AddSettings.
void AddState(const TableSettings& settings, const std::filesystem::path& table,
              Facts& facts);

// The tokens of a scenario's name: "ultrascale-1b-128" has "1b".
[[nodiscard]] std::vector<std::string> TokensOf(const std::string& scenario);

// The trainings of one scenario of a table of measured configurations.
struct ScenarioTraining {
  std::map<unsigned, RowTraining> rows;  // by line of the table
  // The files that the trainings depend on, except the table.
  std::vector<std::filesystem::path> inputs;
};

// Reads the trainings of one scenario.
// Errors: throws InputError as TrainingOf does, and for a file that cannot be
// read.
[[nodiscard]] ScenarioTraining ReadScenarioTraining(
    const std::filesystem::path& table, const std::string& scenario,
    const TableSettings& settings, const TableOverrides& overrides);

}  // namespace trials
