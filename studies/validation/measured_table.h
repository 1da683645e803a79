// A table of measurements, each row with the problem it is a row of.

#ifndef STUDIES_VALIDATION_MEASURED_TABLE_H_
#define STUDIES_VALIDATION_MEASURED_TABLE_H_

#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "common/csv_table.h"
#include "common/error.h"
#include "studies/validation/table_kind.h"
#include "trials/cluster.h"
#include "trials/knobs.h"
#include "trials/simulator/framework.h"
#include "trials/workload.h"

namespace studies {

// Which bytes a publisher calls the peak: those handed out by PyTorch's
// allocator, those it reserved, or all that the process holds; or of a computed
// figure, what formulas count: model states and saved activations.
enum class PeakMemory { kComputed, kAllocated, kReserved, kDevice };

// Whose: the fullest rank's, or that of the one rank that writes the log, the
// first or the last (of the first or the last stage).
enum class PeakRank { kFullest, kFirst, kLast };

struct MeasuredRow {
  std::string scenario;
  // Why nothing is predicted; then of the rest only what is measured holds.
  std::string left_out;
  TimedPart part;  // whose time step_time_s is, where it is not a whole step
  trials::Workload workload;  // nothing for a collective
  trials::Cluster cluster;    // of the size of this row
  std::string framework_name;
  trials::Framework framework;
  trials::ParallelConfig config;
  PeakMemory peak_memory = PeakMemory::kAllocated;
  PeakRank peak_rank = PeakRank::kFullest;
  double peak_memory_unit_bytes = 1e9;  // of the table's own column
  bool out_of_memory = false;
  // NaN: not published.
  double step_time_s = std::numeric_limits<double>::quiet_NaN();
  double peak_memory_bytes = std::numeric_limits<double>::quiet_NaN();
};

struct MeasuredTable {
  std::string name;   // of its settings, or the file's
  std::string title;  // for people
  common::CsvTable csv;
  std::vector<MeasuredRow> rows;  // as the rows of csv
};

// What the command line says in place of a table's settings; empty: nothing.
struct TableOverrides {
  std::filesystem::path scenarios;
  std::string cluster;    // a file, or a name in experiments/clusters/
  std::string framework;  // a file, or a name in experiments/frameworks/
};

// One of the tables that the project knows (names in experiments/validation/),
// from the folder that OPPA_DATA names.
// Errors: throws InputError for an unknown name, a missing file, a missing
// column or fact (with its remedy) and for a cell that cannot be understood.
[[nodiscard]] MeasuredTable ReadKnownTable(const std::string& name,
                                           const TableOverrides& overrides);

// Any table. What it does not say itself is taken from the settings of the
// known table of its name, else of its kind, else of the scenarios' names; a
// file <stem>_scenarios.csv beside it is read without being asked for.
[[nodiscard]] MeasuredTable ReadAnyTable(const std::filesystem::path& path,
                                         const TableOverrides& overrides);

[[nodiscard]] std::vector<std::string> KnownTables();

// Where a known table is; absent when it is not there.
[[nodiscard]] std::optional<std::filesystem::path> KnownTablePath(
    const std::string& name);

}  // namespace studies

#endif  // STUDIES_VALIDATION_MEASURED_TABLE_H_
