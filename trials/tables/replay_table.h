// A table of parallelism configurations with published measurements.

#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "trials/candidate.h"
#include "trials/measurement.h"
#include "trials/parallel_config.h"
#include "trials/tables/measured_rows.h"

namespace trials {

// One configuration of a table, or one plan, with all rows that measured it.
struct ReplayRow {
  Candidate candidate;
  bool out_of_memory = false;  // every row of it is oom
  // The median of its rows that ran; NaN when out of memory.
  double step_time_s = kUnknown;
  // The largest of its rows that ran; absent when none gives one.
  std::optional<double> peak_memory_bytes;
  int measurements = 0;  // rows of the table
  unsigned line = 0;     // of its first row in the file
};

// One scenario (model, batch, one or several numbers of GPUs) of a CSV file:
// its configurations are the whole candidate set.
//
// Columns: those of MeasuredRow. scenario, gpus, dp, tp, pp, status (ok, oom)
// and a step time are required. A field without a column, or with an empty
// cell, is at its default. Columns with other names are ignored; see
// Warning().
//
// A configuration may have several rows. It ran if one of them ran, and then
// its step time is their median: "oom" in a published table often means any
// crash.
//
// A row with a text in the optional column `plan` (ToString of a Plan) measured
// that plan; its cells of configurations are empty. Plans are no candidates of
// a space: methods that suggest plans try them.
//
// Note: the table is used unchanged. Its configurations are not made canonical
// and need not obey the rules of an enumerated space.
// Units: 1 GB is 1e9 bytes.
// Source: docs/replay_tables.md.
class ReplayTable {
 public:
  // Errors: throws InputError for a missing file, a missing or repeated column,
  // a scenario that is not there ("file: ..."), a cell that cannot be
  // understood and rows of different jobs ("file:line: ..."). `size`: of rows
  // with tokens or samples per second.
  [[nodiscard]] static ReplayTable Read(const std::filesystem::path& path,
                                        const std::string& scenario,
                                        const KnobSet& knobs = BuiltInKnobs(),
                                        const StepSize& size = {});

  [[nodiscard]] const std::string& scenario() const { return scenario_; }
  // The largest number of GPUs of a row, and all of them, ascending.
  [[nodiscard]] int gpus() const { return sizes_.back(); }
  [[nodiscard]] const std::vector<int>& sizes() const { return sizes_; }
  // In the order of their first row.
  [[nodiscard]] const std::vector<ReplayRow>& rows() const { return rows_; }
  [[nodiscard]] const std::vector<ReplayRow>& plans() const { return plans_; }
  [[nodiscard]] std::vector<ParallelConfig> configs() const;

  // One line to display about what makes the result doubtful: unknown columns,
  // different batches, other numbers of GPUs than the configurations use,
  // configurations that ran and failed; "" if nothing does.
  [[nodiscard]] std::string Warning() const;

 private:
  std::string path_;
  std::string scenario_;
  std::vector<int> sizes_;
  std::vector<ReplayRow> rows_;
  std::vector<ReplayRow> plans_;
  std::vector<std::string> doubts_;
};

// The scenarios of a table, in the order of their first row.
// Errors: as ReplayTable::Read.
[[nodiscard]] std::vector<std::string> ScenarioNames(
    const std::filesystem::path& path);

}  // namespace trials
