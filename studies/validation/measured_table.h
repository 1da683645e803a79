// A table of measurements in which each row has its own problem.

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
#include "trials/tables/row_training.h"
#include "trials/workload.h"

namespace studies {

// The publisher's definition of the peak: bytes that PyTorch's allocator handed
// out, bytes that it reserved, or all bytes of the process; or computed from
// formulas: model states and saved activations.
enum class PeakMemory { kComputed, kAllocated, kReserved, kDevice };

// The rank of that peak: the fullest one, or the rank that writes the log, the
// first or the last one (of the first or the last stage).
enum class PeakRank { kFullest, kFirst, kLast };

// Of the rows of a table, those that constants may be fitted to and the others,
// which are reported: by model, because the rows of one model predict each
// other (docs/validation.md).
enum class Half { kAll, kFitted, kOther };

struct MeasuredRow {
  std::string scenario;
  Half half = Half::kOther;
  // The reason why there is no prediction; then only the measured values are
  // set.
  std::string left_out;
  TimedPart part;             // of step_time_s, if it is not a whole step
  trials::Workload workload;  // not set for a collective
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
  std::string name;    // of its settings, or the file's
  std::string title;   // for display
  std::string source;  // its publication
  common::CsvTable csv;
  std::vector<MeasuredRow> rows;  // as the rows of csv
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

#endif  // STUDIES_VALIDATION_MEASURED_TABLE_H_
