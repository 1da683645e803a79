#include "plots/figure.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

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
  const std::vector<double>& x = panel.series.front().band.x;
  Table table;
  for (std::size_t i = 0; i < x.size(); ++i) {
    Row row = {{panel.x_column, x[i]}};
    for (const Series& series : panel.series) {
      const common::Quartiles& y = series.band.y[i];
      if (HasQuartiles(series.mark)) {
        row.emplace_back(series.name + "_median", y.median);
        row.emplace_back(series.name + "_q1", y.q1);
        row.emplace_back(series.name + "_q3", y.q3);
      } else {
        row.emplace_back(series.name, y.median);
      }
    }
    if (!panel.name_column.empty()) {
      row.emplace_back(panel.name_column, panel.names[i]);
    }
    table.Add(std::move(row));
  }
  return ToCsv(table);
}

}  // namespace plots
