// What a figure is made of, before anything draws it.

#ifndef PLOTS_FIGURE_H_
#define PLOTS_FIGURE_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "plots/curve.h"

namespace plots {

// How one method looks in every figure of an experiment.
struct LineStyle {
  std::string color = "#000000";
  int dash = -1;       // a pattern of figure_layout.cc; -1: solid
  double width = 1.0;  // points
};

// The palette of Okabe and Ito (2008), which colour-blind readers can tell
// apart, without its yellow, which is lost on white paper. `emphasised` is
// solid and thicker; other lines differ in dashes as well as in colour, so
// that they can be told apart in a grey print, and each is thinner than the one
// before, which is drawn under it: lines that coincide stay visible.
[[nodiscard]] LineStyle StyleOf(int index, bool emphasised);

// How a series is drawn: a line with a band, or points with bars from q1 to
// q3.
enum class Mark { kLine, kPoints };

// One method: a median line with a quartile band.
struct Series {
  std::string name;   // in column names
  std::string label;  // in the legend
  LineStyle style;
  Band band;
  Mark mark = Mark::kLine;
};

// Axes with series in them.
struct Panel {
  std::string name;      // in the data file's name, with several panels
  std::string x_column;  // of the data file: "time_s"
  std::string x_label;
  std::string y_label;
  double x_unit = 1.0;  // data are divided by it for the axis: 60 for minutes
  bool log_y = false;
  // One point with quartile bars for each series at its place on the x axis,
  // named by its label, instead of lines; every band has one point.
  bool by_name = false;
  double x_min = 0.0;  // in data units
  double x_max = 0.0;
  std::optional<double> y_min;  // in data units; absent: fitted
  std::optional<double> y_max;
  std::optional<double> horizontal;  // dashed reference line
  std::string horizontal_label;      // written on it
  std::optional<double> vertical;    // dotted reference line
  bool diagonal = false;             // y = x, dashed, with x_unit 1
  std::vector<Series> series;        // with the same x
};

struct Figure {
  std::string name;  // of its files
  std::string title;
  std::string caption;        // small, under the axes; wrapped
  std::vector<Panel> panels;  // side by side
};

// The aggregated data of a panel: x, then per series median, q1 and q3, in SI
// units; empty where there is no line.
[[nodiscard]] std::string DataCsv(const Panel& panel);

// The name of a panel's data file: "<figure>.csv", or
// "<figure>-<panel>.csv" in a figure of several panels.
[[nodiscard]] std::string DataFileName(const Figure& figure, std::size_t panel);

}  // namespace plots

#endif  // PLOTS_FIGURE_H_
