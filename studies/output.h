// The output of a study: tables and figures in one folder.

#ifndef STUDIES_OUTPUT_H_
#define STUDIES_OUTPUT_H_

#include <filesystem>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "harness/manifest/manifest.h"
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

// Draws figures in results/<verb>/<manifest>[/<problem>] and writes their
// location, or the reason why there are no pictures. Errors: throws InputError
// if the folder cannot be written.
void DrawFigures(const StudyOptions& options, std::string_view verb,
                 const harness::ProblemSpec& problem,
                 std::vector<plots::Figure> figures, const Sink& sink);

// Points with a band between `low` and `high`. Shapes: all [n].
[[nodiscard]] plots::Band LineBand(const std::vector<double>& x,
                                   const std::vector<double>& y,
                                   const std::vector<double>& low,
                                   const std::vector<double>& high);

// A line through these points; its column is named by the label.
[[nodiscard]] plots::Series Line(const std::string& label,
                                 const plots::LineStyle& style,
                                 const std::vector<double>& x,
                                 const std::vector<double>& y);

// At every x the median and the quartiles of all runs, or their whole range.
// Shapes: runs are [n] each, x is [n].
enum class Spread { kQuartiles, kRange };
[[nodiscard]] plots::Band BandOver(const std::vector<double>& x,
                                   const std::vector<std::vector<double>>& runs,
                                   Spread spread);

// 1, 2, ..., n.
[[nodiscard]] std::vector<double> Counting(int n);

}  // namespace studies

#endif  // STUDIES_OUTPUT_H_
