#include "studies/charts.h"

#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "plots/figure_files.h"

namespace studies {

void DrawFigures(const StudyOptions& options, std::string_view verb,
                 const harness::ProblemSpec& problem,
                 std::vector<plots::Figure> figures) {
  const std::filesystem::path folder =
      options.results / verb / options.manifest.stem() / problem.name;
  const std::string error =
      plots::WriteFigures({{folder, std::move(figures)}}, plots::AllFormats())
          .error;
  if (error.empty()) {
    fmt::print("figures in {}\n", folder.string());
  } else {
    fmt::print(stderr, "{}: {}\n", verb, error);
  }
}

}  // namespace studies
