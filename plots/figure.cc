#include "plots/figure.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "common/text.h"
#include "plots/table.h"

namespace plots {
namespace {

constexpr std::array<std::string_view, 7> kColors = {
    "#0072B2", "#009E73", "#CC79A7", "#E69F00",
    "#56B4E9", "#000000", "#999999"};
constexpr std::string_view kEmphasisColor = "#D55E00";

}  // namespace

LineStyle StyleOf(int index, bool emphasized) {
  if (emphasized) {
    return {.color = std::string(kEmphasisColor), .dash = -1, .width = 2.0};
  }
  const auto i = static_cast<std::size_t>(index) % kColors.size();
  return {.color = std::string(kColors[i]),
          .dash = static_cast<int>(i),
          .width = std::max(0.9, 1.4 - 0.15 * static_cast<double>(i))};
}

LineStyle ThinStyle(int index, bool dashed) {
  constexpr int kShortDashes = 1;
  constexpr double kWidth = 0.8;
  return {.color = StyleOf(index, false).color,
          .dash = dashed ? kShortDashes : -1,
          .width = kWidth};
}

bool HasQuartiles(Mark mark) {
  return mark == Mark::kBand || mark == Mark::kPoints;
}

std::string DataFileName(const Figure& figure, std::size_t panel) {
  return figure.panels.size() == 1
             ? figure.name + ".csv"
             : fmt::format("{}-{}.csv", figure.name, figure.panels[panel].name);
}

std::vector<std::size_t> FirstColumns(const Panel& panel) {
  std::vector<std::size_t> columns;
  std::size_t next = 2;  // after x
  for (const Series& series : panel.series) {
    columns.push_back(next);
    next += HasQuartiles(series.mark) ? 3 : 1;
  }
  return columns;
}

std::string DataCsv(const Panel& panel) {
  std::vector<std::string> cells = {panel.x_column};
  for (const Series& series : panel.series) {
    if (!HasQuartiles(series.mark)) {
      cells.push_back(series.name);
      continue;
    }
    for (const char* column : {"median", "q1", "q3"}) {
      cells.push_back(fmt::format("{}_{}", series.name, column));
    }
  }
  if (!panel.name_column.empty()) {
    cells.push_back(panel.name_column);
  }
  std::string text = CsvRow(cells);
  for (std::size_t i = 0; i < panel.series.front().band.x.size(); ++i) {
    cells = {common::ExactText(panel.series.front().band.x[i])};
    for (const Series& series : panel.series) {
      const common::Quartiles& y = series.band.y[i];
      cells.push_back(common::ExactText(y.median));
      if (HasQuartiles(series.mark)) {
        cells.push_back(common::ExactText(y.q1));
        cells.push_back(common::ExactText(y.q3));
      }
    }
    if (!panel.name_column.empty()) {
      cells.push_back(panel.names[i]);
    }
    text += CsvRow(cells);
  }
  return text;
}

}  // namespace plots
