// Error bands from predictions of sources that no constant was fitted to.

#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>
#include <vector>

#include "common/csv_table.h"
#include "plots/figure.h"
#include "trials/simulator/error_band.h"

namespace studies {

// One published row, predicted without its source.
struct LeftOutRow {
  std::string source;
  std::string kind;  // of its framework's code
  std::vector<trials::Guess> guesses = {};
  std::string gpu;
  bool is_step = true;           // not an operator or a collective
  bool ran = true;               // false: it ran out of memory
  double fit_probability = 1.0;  // NaN: refused
  // measured / predicted; NaN where one is missing.
  double step_time = 0.0;
  double peak_memory = 0.0;
};

// The clean rows (MeasuredRow::clean) of a file that scripts/leave-one-out
// writes.
// Errors: throws InputError for a file that is missing or lacks a column.
[[nodiscard]] std::vector<LeftOutRow> ReadLeftOutRows(
    const std::filesystem::path& path);

[[nodiscard]] trials::ErrorBands BandsOf(const std::vector<LeftOutRow>& rows);

// The share of the rows of a source that is inside the bands of the other
// sources.
struct Calibration {
  std::string source;  // or "guess: experts", its rows of all sources
  int step_time_rows = 0;
  double step_time_inside = 0.0;  // NaN without rows
  double step_time_width = 0.0;   // high / low, mean of the rows
  double width_after_one = 0.0;   // after one row of the source itself
  int peak_memory_rows = 0;
  double peak_memory_inside = 0.0;
};
// One for each source with steps, one for each kind of guess, and "all", in
// which every source has the same weight.
[[nodiscard]] std::vector<Calibration> Calibrate(
    const std::vector<LeftOutRow>& rows);

// For each source with rows that ran out of memory, and for all: the share of
// rows that ran (y) by the predicted probability of fitting (x), in tenths; and
// the Brier score, the mean of (x - ran)^2, in the label.
[[nodiscard]] plots::Figure Reliability(const std::vector<LeftOutRow>& rows);

// Writes experiments/validation/bands/error_bands.toml, and calibration.csv and
// the reliability diagram next to the rows, and the calibration to `out`.
void WriteBands(const std::filesystem::path& rows, std::ostream& out);

}  // namespace studies
