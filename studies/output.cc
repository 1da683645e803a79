#include "studies/output.h"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <iostream>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "common/files.h"
#include "common/quantiles.h"
#include "harness/manifest/manifest.h"
#include "plots/figure_files.h"

namespace studies {

int Write(const std::filesystem::path& folder,
          const std::vector<Output>& outputs, const Sink& sink) {
  common::CreateFolders(folder);
  plots::FigureFolder figures{.folder = folder / "figures"};
  for (const Output& output : outputs) {
    plots::WriteTextFile(
        folder / (output.name + ".csv"),
        ToCsv(output.data.columns.empty() ? output.table : output.data));
    if (!output.table.columns.empty()) {
      plots::WriteTextFile(
          folder / (output.name + ".md"),
          fmt::format("{}\n{}\n", ToMarkdown(output.table), output.conclusion));
      sink.out << ToText(output.table) << '\n' << output.conclusion << "\n\n";
    }
    figures.figures.insert(figures.figures.end(), output.figures.begin(),
                           output.figures.end());
  }
  const plots::FigureFiles written =
      plots::WriteFigures({std::move(figures)}, plots::AllFormats());
  if (!written.error.empty()) {
    sink.notes << written.error << '\n';
    return 1;
  }
  sink.out << "tables and figures: " << folder.string() << '\n';
  return 0;
}

int WriteEach(const StudyOptions& options, std::string_view verb,
              const std::function<Output(const harness::ProblemSpec&)>& study,
              const Sink& sink) {
  const harness::Manifest manifest =
      harness::ReadManifest(options.manifest, options.overrides);
  int code = 0;
  for (const harness::ProblemSpec& problem : manifest.problems) {
    code = std::max(code, Write(options.results / verb /
                                    options.manifest.stem() / problem.name,
                                {study(problem)}, sink));
  }
  return code;
}

int RunProgram(bool arguments_are_valid, std::string_view usage,
               const std::function<int(const Sink&)>& study) {
  if (!arguments_are_valid) {
    std::cerr << "usage: " << usage << '\n';
    return 2;
  }
  try {
    return study({std::cout, std::cerr});
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 2;
  }
}

plots::Series Line(const std::string& label, const plots::LineStyle& style,
                   const std::vector<double>& x, const std::vector<double>& y) {
  return {.name = label,
          .label = label,
          .style = style,
          .band = {.x = x,
                   .y = common::Map(y,
                                    [](double at) {
                                      return common::Quartiles{at, at, at};
                                    })},
          .mark = plots::Mark::kLine};
}

plots::Panel PanelOver(const std::string& x_column, const std::string& x_label,
                       const std::string& y_label,
                       std::vector<plots::Series> series) {
  plots::Panel panel{.x_column = x_column,
                     .x_label = x_label,
                     .y_label = y_label,
                     .x_min = series.front().band.x.front(),
                     .x_max = series.front().band.x.back()};
  panel.series = std::move(series);
  return panel;
}

plots::Band BandOver(const std::vector<std::vector<double>>& runs,
                     Spread spread) {
  plots::Band band{.x = Counting(static_cast<int>(runs.front().size()))};
  std::vector<double> values(runs.size());
  for (std::size_t i = 0; i < band.x.size(); ++i) {
    for (std::size_t r = 0; r < runs.size(); ++r) {
      values[r] = runs[r][i];
    }
    common::Quartiles& y =
        band.y.emplace_back(common::ComputeQuartiles(values));
    if (spread == Spread::kRange) {
      const auto [low, high] = std::ranges::minmax_element(values);
      y.q1 = *low;
      y.q3 = *high;
    }
  }
  return band;
}

std::vector<double> Counting(int n) {
  std::vector<double> x(n);
  std::iota(x.begin(), x.end(), 1.0);
  return x;
}

}  // namespace studies
