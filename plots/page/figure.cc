#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "common/files.h"
#include "common/units.h"
#include "plots/figure_files.h"
#include "plots/figures/trial_panel.h"
#include "plots/page/parts.h"
#include "plots/table.h"

namespace plots {
namespace {

Figure FigureOf(const PageRun& run) {
  std::vector<common::Quartiles> predictions;
  for (std::size_t i = 0; i < run.trials.size(); ++i) {
    const double mean = run.predicted_steps_per_s[i];
    const double spread = common::kNormal95 * run.predicted_stddev[i];
    predictions.push_back({.q1 = std::max(mean - spread, 0.0),
                           .median = mean,
                           .q3 = mean + spread});
  }
  const trials::ExperimentInfo& info = run.experiment.info;
  Figure figure{
      .name = "search",
      .title = info.title.empty() ? info.name : info.title,
      .panels = {TrialPanel(run.trials, run.problem->info, predictions)}};
  figure.caption = figure.panels.front().note;
  Panel memory = MemoryPanel(run.trials, run.problem->info);
  for (const Series& series : memory.series) {
    for (const common::Quartiles& y : series.band.y) {
      if (!std::isnan(y.median)) {
        figure.panels.push_back(memory);
        return figure;
      }
    }
  }
  return figure;
}

// What an <svg> element inside of HTML needs of an SVG file: no prolog, names
// of namespaces or title.
std::string Inline(std::string svg) {
  const auto cut = [&svg](std::string_view begin, std::string_view end) {
    const std::size_t from = svg.find(begin);
    const std::size_t to = svg.find(end, from);
    if (from != std::string::npos && to != std::string::npos) {
      svg.erase(from, to + end.size() - from);
    }
  };
  cut("<?xml", "?>\n");
  cut("xmlns=\"", "\"\n");
  cut("xmlns:xlink=\"", "\"\n");
  cut("<title>", "</desc>");
  return svg;
}

}  // namespace

std::string TrialFigure(const PageRun& run,
                        const std::filesystem::path& folder) {
  const Figure figure = FigureOf(run);
  const FigureFiles written = WriteFigures({{folder, {figure}}}, {"svg"});
  if (!written.error.empty()) {
    return fmt::format("<p class=\"soft\">No figure: {}</p>",
                       EscapeHtml(written.error));
  }
  return "<figure>" +
         Inline(common::ReadFileIfExists(folder / (figure.name + ".svg"))
                    .value_or("")) +
         "</figure>";
}

}  // namespace plots
