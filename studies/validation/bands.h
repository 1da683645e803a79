// Error bands from predictions of sources that no constant was fitted to.

#ifndef STUDIES_VALIDATION_BANDS_H_
#define STUDIES_VALIDATION_BANDS_H_

#include <filesystem>
#include <iosfwd>
#include <string>
#include <vector>

#include "common/csv_table.h"
#include "common/error.h"
#include "trials/simulator/error_band.h"

namespace studies {

// One published row, predicted without its source.
struct LeftOutRow {
  std::string source;
  std::string architecture;
  std::string framework;
  int hosts = 1;
  int zero_stage = 0;
  bool is_step = true;  // not an operator or a collective
  // measured / predicted; NaN where one is missing.
  double step_time = 0.0;
  double peak_memory = 0.0;
};

// The rows of a file that scripts/leave-one-out writes.
// Errors: throws InputError for a file that is missing or lacks a column.
[[nodiscard]] std::vector<LeftOutRow> ReadLeftOutRows(
    const std::filesystem::path& path);

// A GPU architecture is seen, and a framework validated, for a row if another
// source has rows of it.
[[nodiscard]] trials::ErrorBands BandsOf(const std::vector<LeftOutRow>& rows);

// The share of the rows of a source that is inside the bands of the other
// sources.
struct Calibration {
  std::string source;
  int step_time_rows = 0;
  double step_time_inside = 0.0;  // NaN without rows
  int peak_memory_rows = 0;
  double peak_memory_inside = 0.0;
};
// One for each source with steps; the last one is "all", in which every source
// has the same weight.
[[nodiscard]] std::vector<Calibration> Calibrate(
    const std::vector<LeftOutRow>& rows);

// Writes experiments/validation/bands/error_bands.toml, and calibration.csv
// next to the rows, and the calibration to `out`.
void WriteBands(const std::filesystem::path& rows, std::ostream& out);

}  // namespace studies

#endif  // STUDIES_VALIDATION_BANDS_H_
