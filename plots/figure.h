// The contents of a figure, independent of how it is drawn.

#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "plots/curve.h"

namespace plots {

struct LineStyle {
  std::string color = "#000000";
  int dash = -1;       // a pattern of figures/gnuplot.cc; -1: solid
  double width = 1.0;  // points
  int symbol = 0;      // a point type of gnuplot; 0: none, of kScatter a circle
};

// The palette of Okabe and Ito (2008) for color-blind readers, with gray
// instead of its yellow, which is hard to see on white paper. Styles differ in
// dashes and symbols as well as in color, for grayscale prints, and are equally
// thick. Only the emphasized one is solid.
[[nodiscard]] LineStyle StyleOf(int index, bool emphasized);

// The styles of methods, the same in every figure of every experiment: by the
// list in figure.cc, or by the name of a method that is not in it, unless one
// before it in the list has that color. Up to kMostColors have different ones.
inline constexpr std::size_t kMostColors = 8;
[[nodiscard]] std::vector<LineStyle> StylesOf(
    const std::vector<std::string>& methods);

// The style with a thin solid line, or a dashed one without symbols.
[[nodiscard]] LineStyle ThinStyle(int index, bool dashed = false);

// How a series is drawn.
enum class Mark {
  kBand,     // a line in a band from q1 to q3
  kLine,     // a line
  kStep,     // a line of steps, each centered at its x: a histogram
  kStairs,   // a line that is level from each x to the next
  kPoints,   // points with bars from q1 to q3
  kScatter,  // points
};

// Whether the quartiles of a series are drawn, too, or its median alone.
[[nodiscard]] bool HasQuartiles(Mark mark);

struct Series {
  std::string name;   // in column names
  std::string label;  // in the legend; "": not in it
  LineStyle style;
  Band band;
  Mark mark = Mark::kBand;
};

// Axes with series in them.
struct Panel {
  std::string name;      // in the data file's name, with several panels
  std::string title;     // above the axes; "": none
  std::string x_column;  // of the data file: "time_s"
  std::string x_label;
  std::string y_label;
  double x_unit = 1.0;  // data are divided by it for the axis: 60 for minutes
  bool log_x = false;
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
  std::vector<double> slopes;        // y = slope * x, dashed, with x_unit 1
  std::vector<Series> series;        // with the same x
  // The last column of the data file and a text for each x; "": none.
  std::string name_column;
  std::vector<std::string> names;
  std::string note;  // a sentence that the caption needs for this panel
};

struct Figure {
  std::string name;  // of its files
  std::string title;
  std::string about;    // the first clause of the caption: what was measured
  std::string caption;  // small, under the axes; wrapped
  std::vector<Panel> panels;
  std::size_t columns = 0;  // panels side by side; 0: all
  bool square = false;      // axes as high as they are wide
};

// The data of a panel: x, then per series its median or, where the mark has
// them, median, q1 and q3, in SI units; empty where no line is drawn.
[[nodiscard]] std::string DataCsv(const Panel& panel);

// For each series the number of its first column in the data file, from 1.
[[nodiscard]] std::vector<std::size_t> FirstColumns(const Panel& panel);

// The name of a panel's data file: "<figure>.csv", or
// "<figure>-<panel>.csv" in a figure of several panels.
[[nodiscard]] std::string DataFileName(const Figure& figure, std::size_t panel);

}  // namespace plots
