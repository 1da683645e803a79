#include "harness/verb_charts.h"

#include <cstdio>
#include <filesystem>
#include <string>

#include <fmt/format.h>

namespace harness {

void DrawCharts(const VerbOptions& options,
                std::string_view verb,
                const ProblemSpec& problem,
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

}  // namespace harness
