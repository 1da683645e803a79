// What the studies of a manifest's problems share: options and charts.

#ifndef STUDIES_CHARTS_H_
#define STUDIES_CHARTS_H_

#include <filesystem>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "harness/manifest.h"
#include "plots/line_chart.h"

namespace studies {

// Which problems a study is about and where its figures go.
struct StudyOptions {
  std::filesystem::path manifest;
  std::filesystem::path results = "results";
  harness::ManifestOverrides overrides;
};

// Draws them in results/<verb>/<manifest>[/<problem>] and prints where they
// are, or why there are no pictures. Errors: throws InputError where the folder
// cannot be written.
void DrawCharts(const StudyOptions& options,
                std::string_view verb,
                const harness::ProblemSpec& problem,
                const std::vector<plots::LineChart>& charts);

}  // namespace studies

#endif  // STUDIES_CHARTS_H_
