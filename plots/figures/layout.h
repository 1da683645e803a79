// The layout of a figure, and the texts around its axes.

#ifndef PLOTS_FIGURES_LAYOUT_H_
#define PLOTS_FIGURES_LAYOUT_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "plots/figure.h"

namespace plots {

// A sample of a line or a point, and its meaning.
struct LegendEntry {
  std::string label;
  std::string style;  // in gnuplot's syntax
  bool is_point = false;
};

// Positions and sizes in inches, from the lower left corner.
struct Layout {
  double width = 0.0;
  double height = 0.0;
  double axes_bottom = 0.0;
  double axes_top = 0.0;
  double panel_width = 0.0;
  std::vector<std::string> title;
  std::vector<std::string> caption;
  std::vector<LegendEntry> legend;
  std::vector<double> legend_column_widths;  // filled row by row
};

// Sized for print: one panel fills a column of a two-column paper, several its
// whole width, so that nothing is scaled down when the figure is included.
[[nodiscard]] Layout LayoutOf(const Figure& figure);

// Left and right end of the axes of a panel, in inches.
[[nodiscard]] double AxesLeft(const Layout& layout, std::size_t panel);
[[nodiscard]] double AxesRight(const Layout& layout, std::size_t panel);

// The words after `set terminal` for "pdf", "svg" or "png".
[[nodiscard]] std::string TerminalOf(std::string_view format,
                                     const Layout& layout);

// The beginning of a script: its terminals and the loop over the formats
// ("pdf", "svg", "png"), which the last lines of the script must close.
[[nodiscard]] std::string ScriptHead(const std::string& name,
                                     const std::vector<std::string>& formats,
                                     const Layout& layout);

// "screen x,y" for a place in inches.
[[nodiscard]] std::string At(const Layout& layout, double x, double y);

// Commands that set the labels of a panel's axes. They have explicit positions:
// terminals do not agree on the size of a character, which gnuplot would use as
// the unit.
[[nodiscard]] std::string AxisLabelsOf(const Layout& layout, const Panel& panel,
                                       std::size_t index);

// Commands that set title, legend and caption.
[[nodiscard]] std::string TextsOf(const Layout& layout);

// "linecolor ... dashtype ... linewidth ...", and the same for points.
[[nodiscard]] std::string LineWords(const LineStyle& style);
[[nodiscard]] std::string PointWords(const LineStyle& style, bool filled);
[[nodiscard]] std::string ReferenceLineWords();

// Text in single quotes, in which gnuplot interprets nothing. A format, such as
// the label of a tic, needs its percent signs doubled.
[[nodiscard]] std::string Quoted(std::string_view text);
[[nodiscard]] std::string QuotedFormat(std::string_view text);

// Font sizes, in points: for most text, and for text with little room.
inline constexpr double kTextPoints = 6.5;
inline constexpr double kSmallPoints = 5.5;

}  // namespace plots

#endif  // PLOTS_FIGURES_LAYOUT_H_
