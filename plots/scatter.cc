#include "plots/scatter.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "common/csv_table.h"
#include "common/text.h"
#include "plots/figure.h"
#include "plots/figure_files.h"
#include "plots/figure_layout.h"

namespace plots {
namespace {

constexpr double kSize = 3.2;  // inches, square: both axes are alike
constexpr double kBand = 0.2;

std::vector<std::string> GroupsOf(const Scatter& scatter) {
  std::vector<std::string> groups;
  for (const ScatterPoint& point : scatter.points) {
    if (std::find(groups.begin(), groups.end(), point.group) == groups.end()) {
      groups.push_back(point.group);
    }
  }
  return groups;
}

// Powers and halves of ten around all values.
std::pair<double, double> RangeOf(const Scatter& scatter) {
  double least = scatter.points.front().measured;
  double most = least;
  for (const ScatterPoint& point : scatter.points) {
    least = std::min({least, point.measured, point.predicted});
    most = std::max({most, point.measured, point.predicted});
  }
  constexpr double kMargin = 1.25;
  return {least / kMargin, most * kMargin};
}

}  // namespace

std::string DataCsv(const Scatter& scatter) {
  std::string text = "group,label,measured,predicted\n";
  for (const ScatterPoint& point : scatter.points) {
    text += fmt::format("{},{},{},{}\n",
                        common::CsvCell(point.group),
                        common::CsvCell(point.label),
                        common::ExactText(point.measured),
                        common::ExactText(point.predicted));
  }
  return text;
}

std::string Script(const Scatter& scatter,
                   const std::vector<std::string>& formats) {
  Layout layout;
  layout.width = layout.height = kSize;
  const auto [least, most] = RangeOf(scatter);
  std::string plots = fmt::format(
      "x with lines linecolor rgb '#444444' linewidth 0.6 title '', \\\n"
      "       {}*x with lines linecolor rgb '#aaaaaa' dashtype (2,2) linewidth "
      "0.5 title '', \\\n"
      "       {}*x with lines linecolor rgb '#aaaaaa' dashtype (2,2) linewidth "
      "0.5 title ''",
      1.0 + kBand,
      1.0 - kBand);
  const std::vector<std::string> groups = GroupsOf(scatter);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    plots += fmt::format(
        ", \\\n       '{}.csv' skip 1 using (strcol(1) eq {} ? $3 : NaN):4 "
        "with points pointtype 6 pointsize 0.35 linewidth 0.8 linecolor rgb "
        "'{}' title {}",
        scatter.name,
        Quoted(groups[i]),
        StyleOf(static_cast<int>(i), false).color,
        Quoted(groups[i]));
  }
  return ScriptHead(scatter.name, formats, layout) +
         fmt::format(
             "  set title {0} font ',{5}'\n"
             "  set border 3 linewidth 0.5 linecolor rgb '#444444'\n"
             "  set tics nomirror out scale 0.4 font ',{6}' textcolor rgb "
             "'#222222'\n"
             "  set size square\n  set logscale xy\n"
             "  set xrange [{1}:{2}]\n  set yrange [{1}:{2}]\n"
             "  set xlabel {3} font ',{5}'\n  set ylabel {4} font ',{5}'\n"
             "  set key top left reverse Left font ',{6}' samplen 0.5\n"
             "  plot {7}\n  set output\n}}\n",
             Quoted(scatter.title),
             least,
             most,
             Quoted("measured " + scatter.quantity),
             Quoted("predicted " + scatter.quantity),
             kTextPoints,
             kSmallPoints,
             plots);
}

std::string WriteScatters(const std::filesystem::path& folder,
                          const std::vector<Scatter>& scatters) {
  std::vector<FigureText> figures;
  for (const Scatter& scatter : scatters) {
    if (!scatter.points.empty()) {
      figures.push_back(
          {scatter.name, DataCsv(scatter), Script(scatter, AllFormats())});
    }
  }
  return DrawFigures(folder, figures);
}

}  // namespace plots
