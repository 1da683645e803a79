// The output of a study: tables and figures in one folder.

#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "common/ranges.h"
#include "harness/spec.h"
#include "plots/figure.h"
#include "plots/table.h"

namespace studies {

// Where a study writes its text: results, and notes on progress and on missing
// pictures.
struct Sink {
  std::ostream& out;
  std::ostream& notes;
};

// The problems of a study and the folder of its figures.
struct StudyOptions {
  std::filesystem::path manifest;
  std::filesystem::path results = "results";
  harness::ManifestOverrides overrides;
};

// One part of a study: a table, and figures.
struct Output {
  std::string name;                    // of its files
  plots::Table table;                  // <name>.md and <name>.csv
  plots::Table data;                   // <name>.csv, if it has other rows
  std::string conclusion;              // under the table, one paragraph
  std::vector<plots::Figure> figures;  // figures/<figure>.*
};

// Writes all files below `folder`, and tables and conclusions to the sink.
// Returns the program's exit code: 1 if no picture could be drawn.
// Errors: throws InputError when a file cannot be written.
[[nodiscard]] int Write(const std::filesystem::path& folder,
                        const std::vector<Output>& outputs, const Sink& sink);

// Writes a study for each problem of the manifest: what `study` makes of it
// goes into <results>/<verb>/<manifest>[/<problem>]. The largest exit code.
[[nodiscard]] int WriteEach(
    const StudyOptions& options, std::string_view verb,
    const std::function<Output(const harness::ProblemSpec&)>& study,
    const Sink& sink);

// The main function of a study: runs it and returns the program's exit code, 2
// with one line on standard error for wrong arguments and for an error.
[[nodiscard]] int RunProgram(bool arguments_are_valid, std::string_view usage,
                             const std::function<int(const Sink&)>& study);

// A line through these points; its column is named by the label.
[[nodiscard]] plots::Series Line(const std::string& label,
                                 const plots::LineStyle& style,
                                 const std::vector<double>& x,
                                 const std::vector<double>& y);

// The x axis covers the points of the first series.
[[nodiscard]] plots::Panel PanelOver(const std::string& x_column,
                                     const std::string& x_label,
                                     const std::string& y_label,
                                     std::vector<plots::Series> series);

// At 1, 2, ..., n, the median and the quartiles of all runs, or their whole
// range. Shapes: runs are [n] each.
enum class Spread { kQuartiles, kRange };
[[nodiscard]] plots::Band BandOver(const std::vector<std::vector<double>>& runs,
                                   Spread spread);
template <typename Run>
[[nodiscard]] plots::Band BandOver(const std::vector<Run>& runs,
                                   std::vector<double> Run::*column,
                                   Spread spread) {
  return BandOver(common::Map(runs, column), spread);
}

// 1, 2, ..., n.
[[nodiscard]] std::vector<double> Counting(int n);

}  // namespace studies
