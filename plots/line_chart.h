// Lines and points that are no medians over runs: a figure of one simulation,
// one trial, one sweep.

#ifndef PLOTS_LINE_CHART_H_
#define PLOTS_LINE_CHART_H_

#include <filesystem>
#include <string>
#include <vector>

#include "common/error.h"

namespace plots {

// Points joined by a line, in the colour of `style` (see StyleOf).
struct ChartLine {
  std::string label;  // in the legend and the data file; "": not in the legend
  std::vector<double> x;
  std::vector<double> y;  // as many
  int style = 0;
  bool dashed = false;  // and without points
};

// Axes with lines in them.
struct ChartPanel {
  std::string title;
  std::string x_label;
  std::string y_label;
  bool log_x = false;
  bool log_y = false;
  std::vector<ChartLine> lines;
};

struct LineChart {
  std::string name;                // of its files
  std::vector<ChartPanel> panels;  // side by side
};

// The points: panel (from 1), line (from 1), label, x, y.
[[nodiscard]] std::string DataCsv(const LineChart& chart);

// A script that draws the figure in each format; run in the data's folder.
[[nodiscard]] std::string Script(const LineChart& chart,
                                 const std::vector<std::string>& formats);

// Writes <name>.csv and <name>.gp of each figure into the folder and draws
// them as pdf, svg and png. Returns "" or, as one line, why there are no
// pictures.
// Errors: throws InputError where the folder cannot be written.
[[nodiscard]] std::string WriteLineCharts(const std::filesystem::path& folder,
                                          const std::vector<LineChart>& charts);

}  // namespace plots

#endif  // PLOTS_LINE_CHART_H_
