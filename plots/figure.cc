#include "plots/figure.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "common/hash.h"
#include "common/ranges.h"
#include "common/text.h"
#include "plots/table.h"

namespace plots {
namespace {

constexpr std::array<std::string_view, kMostColors> kColors = {
    "#D55E00", "#0072B2", "#009E73", "#CC79A7",
    "#E69F00", "#56B4E9", "#000000", "#999999"};
// Point types of gnuplot: filled disk, square, triangle, diamond, inverted
// triangle and pentagon; open circle, square and triangle.
constexpr std::array<int, 9> kSymbols = {7, 5, 9, 13, 11, 15, 6, 4, 8};
constexpr std::size_t kDashPatterns = 7;  // of figures/gnuplot.cc

// The methods in the order of their styles, first the paper's. The first eight
// have colors of their own; so have both versions of OPPA and their ablations.
constexpr std::string_view kStyledMethods =
    "oppa-paper random xgboost cost-model vanilla-bo oppa-sim oppa grid "
    "predicted-order oppa-no-prior oppa-no-early-termination "
    "oppa-no-prior-no-early-termination oppa-paper-no-prior "
    "oppa-paper-no-early-termination oppa-no-throughput-prior "
    "oppa-paper-neither oppa-no-memory-prior aceso amp nnscaler astra textbook "
    "evolutionary hierarchical cost-model-physical planned";

LineStyle StyleAt(std::size_t i) {
  return {.color = std::string(kColors[i % kColors.size()]),
          .dash = i == 0 ? -1 : static_cast<int>((i - 1) % kDashPatterns),
          .width = 1.1,
          .symbol = kSymbols[i % kSymbols.size()]};
}

}  // namespace

LineStyle StyleOf(int index, bool emphasized) {
  return StyleAt(emphasized ? 0 : 1 + static_cast<std::size_t>(index));
}

std::vector<LineStyle> StylesOf(const std::vector<std::string>& methods) {
  static const auto listed = common::Split(kStyledMethods, ' ');
  // Listed methods choose first, in their order; the others by their names.
  const auto place = [](const std::string& method) {
    return static_cast<std::size_t>(std::ranges::find(listed, method) -
                                    listed.begin());
  };
  auto order = common::Indices<std::size_t>(methods.size());
  std::ranges::stable_sort(order, {},
                           [&](std::size_t m) { return place(methods[m]); });
  std::array<bool, kColors.size()> used{};
  std::vector<LineStyle> styles(methods.size());
  for (const std::size_t m : order) {
    std::size_t style = place(methods[m]);
    if (style == listed.size()) {
      style += common::Hash(methods[m]) % used.size();
    }
    for (std::size_t tried = 1;
         used[style % used.size()] && tried < used.size(); ++tried) {
      ++style;
    }
    used[style % used.size()] = true;
    styles[m] = StyleAt(style);
  }
  return styles;
}

LineStyle ThinStyle(int index, bool dashed) {
  constexpr int kShortDashes = 1;
  LineStyle style = StyleOf(index, false);
  style.dash = dashed ? kShortDashes : -1;
  style.width = 0.8;
  style.symbol = dashed ? 0 : style.symbol;
  return style;
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
