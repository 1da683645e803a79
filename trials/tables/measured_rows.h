// Rows of tables of measured configurations, with their columns under all their
// names and in all their units.

#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/csv_table.h"
#include "trials/measurement.h"
#include "trials/parallel_config.h"
#include "trials/tables/facts.h"

namespace trials {

// The numbers that convert samples/s and tokens/s of a row that does not have
// them; 0: unknown.
struct StepSize {
  double batch_size = 0.0;
  double sequence_length = 0.0;
};

// One row. Its columns:
//
//   configuration  a column per knob (name or alias), or its flag
//   status         or outcome: ok, success, oom, timeout, error, crash, or the
//                  name of an Outcome
//   speed          step_time_s, step_time_ms, throughput_steps_per_s,
//                  samples_per_s or tokens_per_s: the first one that is known
//   peak memory    peak_memory_bytes, _mib or _gb (1e9 bytes)
//
// and facts, such as scenario, gpus, batch_size, under all names of FactName.
struct MeasuredRow {
  Facts facts;                     // the cells
  ParallelConfig config;           // a field without a cell is at its default
  std::optional<Outcome> outcome;  // absent where the row does not say
  // NaN where unknown, and of a row that failed.
  double step_time_s = kUnknown;
  double steps_per_s = kUnknown;
  double peak_memory_bytes = kUnknown;

  // Whether the row ran; false: it ran out of memory.
  // Errors: throws InputError for other outcomes and without one.
  [[nodiscard]] bool Ran() const;
};

// What the fact `status` says, in names that tools and tables use: "ok", "OOM";
// nothing without it. Errors: throws InputError for another word.
[[nodiscard]] std::optional<Outcome> OutcomeOf(const Facts& facts);

// Errors: throws InputError "file:line: ..." for an invalid cell.
[[nodiscard]] MeasuredRow ReadMeasuredRow(const TableRow& row,
                                          const KnobSet& knobs = BuiltInKnobs(),
                                          const StepSize& size = {});

// The configuration that the facts describe.
// Errors: as ReadMeasuredRow.
[[nodiscard]] ParallelConfig ConfigOf(const Facts& facts,
                                      const KnobSet& knobs = BuiltInKnobs());

// The one name of a column: "status" for outcome, "step_time_s" for each column
// of speed, "peak_memory_gb" for each of peaks, "sp" for sequence_parallel, ...
[[nodiscard]] std::string ColumnName(std::string_view column,
                                     const KnobSet& knobs = BuiltInKnobs());

struct MeasuredColumns {
  std::set<std::string, std::less<>> names;  // by ColumnName
  // Those that are not of MeasuredRow, nor have one of the names `others`.
  std::vector<std::string> unknown;
};

// Errors: throws InputError "file:line: ..." for two columns of one meaning,
// and unless the table has the columns `needed`.
MeasuredColumns CheckColumns(const common::CsvTable& table,
                             const KnobSet& knobs,
                             const std::vector<std::string_view>& needed,
                             const std::vector<std::string_view>& others);

}  // namespace trials
