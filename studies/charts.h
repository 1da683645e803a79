// Options and figures of the studies of a manifest's problems.

#ifndef STUDIES_CHARTS_H_
#define STUDIES_CHARTS_H_

#include <filesystem>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "harness/manifest/manifest.h"
#include "plots/figure.h"

namespace studies {

// The problems of a study and the folder of its figures.
struct StudyOptions {
  std::filesystem::path manifest;
  std::filesystem::path results = "results";
  harness::ManifestOverrides overrides;
};

// Draws figures in results/<verb>/<manifest>[/<problem>] and prints their
// location, or the reason why there are no pictures. Errors: throws InputError
// if the folder cannot be written.
void DrawFigures(const StudyOptions& options, std::string_view verb,
                 const harness::ProblemSpec& problem,
                 std::vector<plots::Figure> figures);

}  // namespace studies

#endif  // STUDIES_CHARTS_H_
