#include "studies/charts.h"

#include <cstdio>
#include <filesystem>
#include <string>

#include <fmt/format.h>

namespace studies {

void DrawCharts(const StudyOptions& options,
                std::string_view verb,
                const harness::ProblemSpec& problem,
                const std::vector<plots::LineChart>& charts) {
  const std::filesystem::path folder =
      options.results / verb / options.manifest.stem() / problem.name;
  const std::string error = plots::WriteLineCharts(folder, charts);
  if (error.empty()) {
    fmt::print("figures in {}\n", folder.string());
  } else {
    fmt::print(stderr, "{}: {}: {}\n", verb, folder.string(), error);
  }
}

}  // namespace studies
