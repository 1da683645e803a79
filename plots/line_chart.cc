#include "plots/line_chart.h"

#include <cstddef>

#include <fmt/format.h>

#include "common/csv_table.h"
#include "common/text.h"
#include "plots/figure.h"
#include "plots/figure_files.h"
#include "plots/figure_layout.h"

namespace plots {
namespace {

constexpr double kPanelWidth = 2.6;  // inches
constexpr double kHeight = 2.2;

// The rows of the data file that belong to a line.
std::string LineWordsOf(const LineChart& chart,
                        std::size_t panel,
                        std::size_t index) {
  const ChartLine& line = chart.panels[panel].lines[index];
  const LineStyle style = StyleOf(line.style, false);
  return fmt::format(
      "'{}.csv' skip 1 using (column(1) == {} && column(2) == {} ? column(4) : "
      "1/0):5 with {} linecolor rgb '{}' {}title {}",
      chart.name,
      panel + 1,
      index + 1,
      line.dashed ? "lines" : "linespoints pointtype 7 pointsize 0.2",
      style.color,
      line.dashed ? "dashtype (3,2) linewidth 0.8 " : "linewidth 0.8 ",
      Quoted(line.label));
}

std::string PanelWords(const LineChart& chart, std::size_t index) {
  const ChartPanel& panel = chart.panels[index];
  std::string lines;
  for (std::size_t i = 0; i < panel.lines.size(); ++i) {
    lines += (i > 0 ? ", \\\n    " : "") + LineWordsOf(chart, index, i);
  }
  return fmt::format(
      "  set title {} font ',{}'\n"
      "  set xlabel {} font ',{}'\n  set ylabel {} font ',{}'\n"
      "  {} logscale x\n  {} logscale y\n  plot {}\n",
      Quoted(panel.title),
      kTextPoints,
      Quoted(panel.x_label),
      kTextPoints,
      Quoted(panel.y_label),
      kTextPoints,
      panel.log_x ? "set" : "unset",
      panel.log_y ? "set" : "unset",
      lines);
}

}  // namespace

std::string DataCsv(const LineChart& chart) {
  std::string text = "panel,line,label,x,y\n";
  for (std::size_t p = 0; p < chart.panels.size(); ++p) {
    const std::vector<ChartLine>& lines = chart.panels[p].lines;
    for (std::size_t l = 0; l < lines.size(); ++l) {
      for (std::size_t i = 0; i < lines[l].x.size(); ++i) {
        text += fmt::format("{},{},{},{},{}\n",
                            p + 1,
                            l + 1,
                            common::CsvCell(lines[l].label),
                            common::ExactText(lines[l].x[i]),
                            common::ExactText(lines[l].y[i]));
      }
    }
  }
  return text;
}

std::string Script(const LineChart& chart,
                   const std::vector<std::string>& formats) {
  Layout layout;
  layout.width = kPanelWidth * static_cast<double>(chart.panels.size());
  layout.height = kHeight;
  std::string panels;
  for (std::size_t p = 0; p < chart.panels.size(); ++p) {
    panels += PanelWords(chart, p);
  }
  return ScriptHead(chart.name, formats, layout) +
         fmt::format(
             "  set border 3 linewidth 0.5 linecolor rgb '#444444'\n"
             "  set tics nomirror out scale 0.4 font ',{0}' textcolor rgb "
             "'#222222'\n"
             "  set key top right font ',{0}' samplen 1\n"
             "  set autoscale xfix\n  set multiplot layout 1,{1}\n{2}"
             "  unset multiplot\n  set output\n}}\n",
             kSmallPoints,
             chart.panels.size(),
             panels);
}

std::string WriteLineCharts(const std::filesystem::path& folder,
                            const std::vector<LineChart>& charts) {
  std::vector<FigureText> figures;
  for (const LineChart& chart : charts) {
    figures.push_back(
        {chart.name, DataCsv(chart), Script(chart, AllFormats())});
  }
  return DrawFigures(folder, figures);
}

}  // namespace plots
