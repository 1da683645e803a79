// A table of measurements in which each row has its own problem.

#pragma once

#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/csv_table.h"
#include "trials/cluster.h"
#include "trials/simulator/gpu_model.h"
#include "trials/simulator/step_report.h"
#include "trials/tables/facts.h"
#include "trials/tables/row_training.h"

namespace studies {

// The kinds of published table: one adapter for each set of columns.

using trials::Facts;
using trials::TableRow;

// The operator or collective of a row that is not a whole step.
struct TimedPart {
  // An operator, by its name in trials/simulator/layer_cost.h, or a collective:
  // all-reduce, reduce-scatter, all-gather, all-to-all, or a call on one GPU.
  // "": a whole step.
  std::string name;
  // An operator: how many tensor-parallel all-reduces are timed with it,
  // whether its backward accumulates gradients, and whether it copies queries,
  // keys and values into separate tensors, and their gradients into one.
  int forward_all_reduces = 0;
  int backward_all_reduces = 0;
  bool accumulates = false;
  bool copies_heads = false;
  // A collective has its buffer (the gathered one), and the bytes that the
  // framework copies in addition. 0: an operator.
  double bytes = 0.0;
  double copied_bytes = 0.0;
  // A call on one GPU is a product, or fused attention.
  std::optional<trials::Gemm> gemm;
  std::optional<trials::Attention> attention;
  bool backward = false;

  [[nodiscard]] bool IsCall() const { return gemm || attention; }
};

// Adds one row, with its columns renamed to facts.
struct RowFacts {
  explicit RowFacts(const TableRow& row) : facts(row) {}

  Facts facts;
  // Names of tables in [facts_of] of the settings: model, GPU type, ...
  std::vector<std::string> tokens;
  std::string left_out;  // why there is no prediction; "" if there is one
  // What the table names instead of a cluster: a GPU or an environment of the
  // publisher. The settings have the cluster of each known one. "": the table
  // has one cluster, or names clusters.
  std::string environment;
  TimedPart part;
};

using ReadRow = RowFacts (*)(const TableRow&);

struct TableKind {
  std::string_view name;
  std::vector<std::string_view> columns;  // identify the kind
  ReadRow read;
  common::CsvTable::Rows rows = common::CsvTable::Rows::kWhole;
};

[[nodiscard]] std::span<const TableKind> TableKinds();

// The kind of a table by its columns.
// Errors: throws InputError naming the file, the columns that the nearest kind
// lacks, and all kinds.
[[nodiscard]] const TableKind& KindOf(const common::CsvTable& table);

// Errors: throws InputError for an unknown name.
[[nodiscard]] const TableKind& FindTableKind(std::string_view name);

// The adapters, each in the file of its name.
[[nodiscard]] RowFacts ReadMeasured(const TableRow& row);
[[nodiscard]] RowFacts ReadKorthikanti(const TableRow& row);
[[nodiscard]] RowFacts ReadMosaicml(const TableRow& row);
[[nodiscard]] RowFacts ReadMegatronGolden(const TableRow& row);
[[nodiscard]] RowFacts ReadSimumax(const TableRow& row);
[[nodiscard]] RowFacts ReadLayouts(const TableRow& row);
[[nodiscard]] RowFacts ReadGpuOperators(const TableRow& row);
[[nodiscard]] RowFacts ReadAcesoOperators(const TableRow& row);
[[nodiscard]] RowFacts ReadAcesoCollectives(const TableRow& row);
[[nodiscard]] RowFacts ReadNccl(const TableRow& row);

// A table and its rows.

using trials::PeakMemory;

// The rank of that peak: the fullest one, or the rank that writes the log, the
// first or the last one (of the first or the last stage).
enum class PeakRank { kFullest, kFirst, kLast };

// The rows of a table that constants may be fitted to, and the others, which
// are reported: by model, because the rows of one model predict each
// other (docs/validation.md).
enum class Half { kAll, kFitted, kOther };

// What it trains is not set for a collective.
struct MeasuredRow : trials::RowTraining {
  std::string scenario;
  Half half = Half::kOther;
  // The reason why there is no prediction; then only the measured values are
  // set.
  std::string left_out;
  TimedPart part;                 // of step_time_s, if it is not a whole step
  std::vector<int> stage_blocks;  // [pp]; empty: as the framework divides them
  PeakMemory peak_memory = PeakMemory::kAllocated;
  PeakRank peak_rank = PeakRank::kFullest;
  double peak_memory_unit_bytes = 1e9;  // of the table's own column
  bool out_of_memory = false;
  bool failed = false;  // for another reason: a crash, a time-out
  // The job was in the state that the simulator describes (docs/validation.md,
  // "States of a job"); rows that do not run are in any state.
  bool clean = true;
  // NaN: not published.
  double step_time_s = std::numeric_limits<double>::quiet_NaN();
  double peak_memory_bytes = std::numeric_limits<double>::quiet_NaN();
};

struct MeasuredTable {
  std::string name;    // of its settings, or the file's
  std::string title;   // for display
  std::string source;  // its publication
  common::CsvTable csv;
  std::vector<MeasuredRow> rows;    // as the rows of csv
  std::vector<std::string> unread;  // columns that nothing reads
  std::string assumed;  // lines on what was assumed of a table without settings
};

using trials::TableOverrides;

// A table of the project (names in experiments/validation/), from the folder
// OPPA_DATA.
// Errors: throws InputError for an unknown name, a missing file, a missing
// column or fact (with its remedy) and for a cell with an invalid value.
[[nodiscard]] MeasuredTable ReadKnownTable(const std::string& name,
                                           const TableOverrides& overrides);

// Reads any table. Missing facts come from the settings of the known table of
// its name, otherwise of its kind, otherwise of the scenarios' names, and from
// a file <stem>_scenarios.csv in its folder.
[[nodiscard]] MeasuredTable ReadAnyTable(const std::filesystem::path& path,
                                         const TableOverrides& overrides);

[[nodiscard]] std::vector<std::string> KnownTables();

// The path of a known table; absent if the file does not exist.
[[nodiscard]] std::optional<std::filesystem::path> KnownTablePath(
    const std::string& name);

}  // namespace studies
