#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "common/pattern.h"
#include "common/ranges.h"
#include "plots/figure_files.h"
#include "plots/table.h"

namespace plots {
namespace {

// Layout in inches and points. One panel fills a column of a two-column paper,
// several its whole width; nothing is scaled down when the figure is included.
constexpr double kPanelWidth = 3.5;
constexpr double kSeveralPanelsWidth = 7.2;
constexpr double kLeastPanelWidth = 1.8;  // of several
constexpr double kAxesHeight = 1.75;
constexpr double kHighestAxes = 1.2;  // over their width
constexpr double kLeft = 0.56;        // room for the numbers and the label
constexpr double kRight = 0.12;
constexpr double kBelowAxes = 0.40;
constexpr double kXLabelBelow = 0.27;
constexpr double kYLabelBeside = 0.47;
constexpr double kLegendRow = 0.125;
constexpr double kLegendSample = 0.5;  // with the room around it
constexpr double kCaptionRow = 0.105;
constexpr double kTitleRow = 0.17;
constexpr double kPanelTitleRow = 0.13;
constexpr double kAboveAxes = 0.08;
constexpr double kTitleCenter = 0.6;     // of its row, from its upper edge
constexpr double kCaptionCenter = 0.65;  // of its row, from its lower edge
constexpr double kProseWidth = 0.54;     // of a character, over the font size
constexpr double kLabelWidth = 0.62;     // the same, as gnuplot assumes
constexpr double kPointsPerInch = 72.0;
constexpr double kTitlePoints = 7.5;
constexpr double kTextPoints = 6.5;
constexpr double kSmallPoints = 5.5;  // of text with little room

constexpr std::string_view kReferenceLine =
    "linecolor rgb '#555555' dashtype (4,3) linewidth 0.7";
constexpr std::array<std::string_view, 7> kDashes = {
    "(10,3)", "(4,3)",         "(10,3,2,3)", "(6,4)",
    "(2,4)",  "(8,2,2,2,2,2)", "(14,5)"};

constexpr double kOpacity = 0.08;  // of a quartile band
constexpr std::size_t kSymbolsPerLine = 7;
constexpr std::string_view kEdgeWords = "dashtype solid linewidth 0.4";
constexpr double kSmallPoint = 0.6;  // over the size of a symbol
constexpr double kRadius = 0.015;    // of a point with bars
constexpr std::string_view kBarWords = "linewidth 0.6";
// Bars where each series has a place, 1 apart, on the x axis.
constexpr std::string_view kBarByNameWords = "linewidth 1.2 pointtype 0";
constexpr double kRadiusByName = 0.01;   // over the number of places
constexpr double kRoomByName = 0.6;      // next to the first and the last
constexpr std::size_t kMostAslant = 10;  // names; more are upright
// The label of a horizontal line, as shares of the axes.
constexpr double kLineLabelX = 0.015;
constexpr double kLineLabelAbove = 0.042;

// Text in single quotes, in which gnuplot interprets nothing.
std::string Quoted(std::string_view text) {
  // Each apostrophe is in a separate text: gnuplot's '' for it fails at the
  // beginning of a text and next to another.
  std::string quoted;
  bool open = false;
  for (const char c : text) {
    if (c == '\'') {
      quoted += open ? "'.\"'\"" : quoted.empty() ? "\"'\"" : ".\"'\"";
      open = false;
      continue;
    }
    quoted += open ? "" : quoted.empty() ? "'" : ".'";
    quoted += c == '\n' ? ' ' : c;
    open = true;
  }
  return quoted.empty() ? "''" : quoted + (open ? "'" : "");
}

// A format, such as the label of a tic, needs its percent signs doubled.
std::string QuotedFormat(std::string_view text) {
  std::string format;
  for (const char c : text) {
    format += c == '%' ? "%%" : std::string(1, c);
  }
  return Quoted(format);
}

std::string LineWords(const LineStyle& style) {
  return fmt::format("linecolor rgb '{}' dashtype {} linewidth {}", style.color,
                     style.dash < 0 ? "solid" : kDashes[style.dash],
                     style.width);
}

// `symbol` is a variable of the script: terminals do not agree on a point.
std::string SymbolWords(int symbol, double size) {
  return fmt::format("pointtype {} pointsize {}*symbol", symbol, size);
}

std::string PointWords(const LineStyle& style, bool filled) {
  constexpr int kCircle = 6;
  constexpr int kDisk = 7;
  const bool symbol = style.symbol > 0 && !filled;
  return fmt::format("{} linewidth {} linecolor rgb '{}'",
                     symbol
                         ? SymbolWords(style.symbol, 1.0)
                         : SymbolWords(filled ? kDisk : kCircle, kSmallPoint),
                     symbol ? 1.0 : 0.8, style.color);
}

// Whether the line of a series has symbols on it.
bool HasSymbols(const Series& series) {
  return series.style.symbol > 0 &&
         (series.mark == Mark::kBand || series.mark == Mark::kLine);
}

// The sample of a series in the legend.
std::string SampleOf(const Series& series) {
  const bool filled = series.mark == Mark::kPoints;
  if (filled || series.mark == Mark::kScatter) {
    return "points " + PointWords(series.style, filled);
  }
  const std::string line = LineWords(series.style);
  return HasSymbols(series) ? fmt::format("linespoints {} {}", line,
                                          SymbolWords(series.style.symbol, 1.0))
                            : "lines " + line;
}

// Lines that do not break inside a short text in parentheses or quotes, in a
// number of things ("8 x A100"), and before the last word. None for no text.
std::vector<std::string> Wrapped(const std::string& text, std::size_t width) {
  constexpr char kGlue = '\x1f';
  static const common::Pattern whole(
      R"re(\([^()]{1,45}\)|"[^"]{1,45}"|\S+( x \S+)+|\d+ repeats?|\S+ \S+$)re");
  std::string glued = text;
  std::size_t from = 0;
  for (std::vector<std::string_view> found;
       !(found = whole.Find(text, from)).empty();) {
    from = static_cast<std::size_t>(found[0].data() - text.data());
    const auto begin = glued.begin() + static_cast<std::ptrdiff_t>(from);
    std::replace(begin, begin + static_cast<std::ptrdiff_t>(found[0].size()),
                 ' ', kGlue);
    from += found[0].size();
  }
  std::vector<std::string> lines =
      text.empty() ? std::vector<std::string>() : Wrap(glued, width);
  for (std::string& line : lines) {
    std::replace(line.begin(), line.end(), kGlue, ' ');
  }
  return lines;
}

double TextWidth(const std::string& text, double points) {
  return static_cast<double>(text.size()) * kProseWidth * points /
         kPointsPerInch;
}

std::size_t CharactersIn(double width, double points) {
  return static_cast<std::size_t>(width * kPointsPerInch /
                                  (kProseWidth * points));
}

// A color as gnuplot takes it with a transparency (hexadecimal).
std::string Transparent(std::string_view transparency,
                        const std::string& color) {
  return fmt::format("rgb '#{}{}'", transparency, color.substr(1));
}

// "plot a, \ b, \ c".
std::string PlotCommand(const std::vector<std::string>& parts) {
  return fmt::format("  plot {}\n", fmt::join(parts, ", \\\n       "));
}

// Positions and sizes in inches, from the lower left corner.
struct Layout {
  double width = 0.0;
  double height = 0.0;
  std::size_t columns = 1;  // of panels
  std::size_t rows = 1;
  double panel_width = 0.0;
  double axes_height = 0.0;
  double below_axes = kBelowAxes;
  double row_height = 0.0;  // with all that is around the axes
  std::vector<std::string> title;
  std::vector<std::string> caption;
  // What draws nothing but its sample in the legend: every label once.
  std::vector<std::string> legend;
  std::size_t legend_columns = 1;
  std::size_t longest_label = 0;  // characters

  [[nodiscard]] double caption_height() const {
    return kCaptionRow * static_cast<double>(caption.size());
  }
  [[nodiscard]] double legend_bottom() const {
    return caption_height() + row_height * static_cast<double>(rows);
  }
  [[nodiscard]] double legend_top() const {
    return height - kTitleRow * static_cast<double>(title.size());
  }
  [[nodiscard]] double AxesLeft(std::size_t panel) const {
    return panel_width * static_cast<double>(panel % columns) + kLeft;
  }
  [[nodiscard]] double AxesRight(std::size_t panel) const {
    return panel_width * static_cast<double>(panel % columns + 1) - kRight;
  }
  [[nodiscard]] double AxesBottom(std::size_t panel) const {
    const std::size_t rows_below = rows - 1 - panel / columns;
    return caption_height() + below_axes +
           row_height * static_cast<double>(rows_below);
  }
  [[nodiscard]] double AxesTop(std::size_t panel) const {
    return AxesBottom(panel) + axes_height;
  }
  // "screen x,y".
  [[nodiscard]] std::string At(double x, double y) const {
    return fmt::format("screen {:.4f},{:.4f}", x / width, y / height);
  }
  // Commands that place the edges of a plot.
  [[nodiscard]] std::string Edges(double left, double right, double bottom,
                                  double top) const {
    return fmt::format(
        "  set lmargin at screen {:.4f}\n  set rmargin at screen {:.4f}\n"
        "  set bmargin at screen {:.4f}\n  set tmargin at screen {:.4f}\n",
        left / width, right / width, bottom / height, top / height);
  }
};

// Fills the legend of a layout in as few rows as there is room for, and then in
// as few columns. Returns the number of rows.
std::size_t SetLegend(const Figure& figure, double text_width, Layout& layout) {
  std::vector<std::string> labels;
  std::size_t longest = 0;
  for (const Panel& panel : figure.panels) {
    for (const Series& series : panel.series) {
      // By name, the axis has the labels.
      if (panel.by_name || series.label.empty() ||
          common::Contains(labels, series.label)) {
        continue;
      }
      labels.push_back(series.label);
      longest = std::max(longest, series.label.size());
      layout.legend.push_back(fmt::format(
          "NaN with {} title {}", SampleOf(series), Quoted(series.label)));
    }
  }
  const std::size_t entries = labels.size();
  if (entries == 0) {
    return 0;
  }
  const double width = kLegendSample + static_cast<double>(longest) *
                                           kLabelWidth * kTextPoints /
                                           kPointsPerInch;
  const auto columns = std::clamp<std::size_t>(
      static_cast<std::size_t>(text_width / width), 1, entries);
  const std::size_t rows = (entries + columns - 1) / columns;
  layout.legend_columns = (entries + rows - 1) / rows;
  layout.longest_label = longest;
  return rows;
}

Layout LayoutOf(const Figure& figure) {
  Layout layout;
  const std::size_t panels = figure.panels.size();
  layout.columns = figure.columns > 0 ? figure.columns : panels;
  layout.rows = (panels + layout.columns - 1) / layout.columns;
  const auto columns = static_cast<double>(layout.columns);
  layout.width = layout.columns == 1 ? kPanelWidth
                                     : std::max(kSeveralPanelsWidth,
                                                kLeastPanelWidth * columns);
  layout.panel_width = layout.width / columns;
  const double text_width = layout.width - 2.0 * kRight;
  const char* between = figure.about.empty() ? "" : "; ";
  layout.caption = Wrapped(figure.about + between + figure.caption,
                           CharactersIn(text_width, kSmallPoints));
  layout.title = Wrapped(figure.title, CharactersIn(text_width, kTitlePoints));
  const std::size_t rows = SetLegend(figure, text_width, layout);
  const double axes_width = layout.panel_width - kLeft - kRight;
  layout.axes_height = figure.square
                           ? axes_width
                           : std::min(kAxesHeight, kHighestAxes * axes_width);
  const bool titles = std::ranges::any_of(
      figure.panels, [](const Panel& panel) { return !panel.title.empty(); });
  for (const Panel& panel : figure.panels) {
    for (const Series& series : panel.series) {
      if (panel.by_name && panel.series.size() > kMostAslant) {
        layout.below_axes =
            std::max(layout.below_axes,
                     kAboveAxes + TextWidth(series.label, kSmallPoints));
      }
    }
  }
  layout.row_height = layout.below_axes + layout.axes_height + kAboveAxes +
                      (titles ? kPanelTitleRow : 0.0);
  layout.height = layout.legend_bottom() +
                  kLegendRow * static_cast<double>(rows) +
                  kTitleRow * static_cast<double>(layout.title.size());
  return layout;
}

constexpr double kFontPointsPerInch = 96.0;  // of Cairo

// The words after `set terminal` for "pdf", "svg" or "png".
std::string TerminalOf(std::string_view format, const Layout& layout) {
  // fontconfig on Debian depends on this font, so every gnuplot there has it.
  constexpr std::string_view kFont = "DejaVu Sans";
  // Those of Cairo take a point of a font for 1/72 inch of a screen of 96 dots
  // per inch, SVG for one of its units, and pdfcairo half a point for the unit
  // of line width.
  constexpr double kPdfLineWidth = 2.0;
  if (format == "pdf") {
    return fmt::format(
        "pdfcairo noenhanced size {}in,{:.3f}in font '{},{}' fontscale {} "
        "linewidth {} dashlength 1 background rgb 'white'",
        layout.width, layout.height, kFont, kTextPoints,
        kPointsPerInch / kFontPointsPerInch, kPdfLineWidth);
  }
  // Points of the page, enlarged.
  constexpr double kPngPixelsPerInch = 300.0;
  constexpr double kSvgUnitsPerInch = 144.0;
  const bool png = format == "png";
  const double per_inch = png ? kPngPixelsPerInch : kSvgUnitsPerInch;
  return fmt::format(
      "{} noenhanced size {:.0f},{:.0f}{} font '{},{}' fontscale {:.4f} "
      "linewidth {:.4f} dashlength 1 background rgb 'white'",
      png ? "pngcairo" : "svg", layout.width * per_inch,
      layout.height * per_inch, png ? "" : " dynamic", kFont, kTextPoints,
      per_inch / (png ? kFontPointsPerInch : kPointsPerInch),
      per_inch / kPointsPerInch);
}

// What the SVG terminal does not know of the width of a character; it takes the
// height of those of Cairo.
constexpr double kUnseenWidth = 0.67;

// The beginning of a script: its terminals and the loop over the formats, which
// the last lines of the script must close.
std::string ScriptHead(const std::string& name,
                       const std::vector<std::string>& formats,
                       const Layout& layout) {
  std::string terminals;
  for (const std::string& format : formats) {
    terminals += fmt::format("terminal_{} = \"{}\"\n", format,
                             TerminalOf(format, layout));
  }
  return fmt::format(
      "# Draws the figure '{0}' from the data beside it: gnuplot {0}.gp\n"
      "reset session\nset encoding utf8\nset datafile separator ','\n{1}"
      "do for [format in '{2}'] {{\n"
      "  eval 'set terminal '.value('terminal_'.format)\n"
      "  symbol = format eq 'pdf' ? 0.47 : format eq 'png' ? 1.0 : 1.15\n"
      "  key_width = format eq 'svg' ? {3} : 2\n"
      "  key_scale = format eq 'svg' ? {4:.4f} : 1\n"
      "  set output '{0}.'.format\n",
      name, terminals, fmt::join(formats, " "),
      2.0 + kUnseenWidth * static_cast<double>(layout.longest_label),
      kFontPointsPerInch / kPointsPerInch);
}

// Commands that set the labels of a panel's axes and its title. They have
// explicit positions: terminals do not agree on the size of a character, which
// gnuplot would use as the unit.
std::string AxisLabelsOf(const Layout& layout, const Panel& panel,
                         std::size_t index) {
  const double left = layout.AxesLeft(index);
  const double bottom = layout.AxesBottom(index);
  const double top = layout.AxesTop(index);
  // Under the center of the axes, but not beyond the panel.
  const double center =
      std::min(0.5 * (left + layout.AxesRight(index)),
               left - kLeft + layout.panel_width -
                   0.5 * TextWidth(panel.x_label, kTextPoints));
  return fmt::format(
      "  set label {} at {} center\n  set label {} at {} center rotate by 90\n"
      "  set label {} at {} center\n",
      Quoted(panel.x_label), layout.At(center, bottom - kXLabelBelow),
      Quoted(panel.y_label),
      layout.At(left - kYLabelBeside, 0.5 * (bottom + top)),
      Quoted(panel.title),
      layout.At(left - kLeft + 0.5 * layout.panel_width,
                top + kAboveAxes + 0.5 * kPanelTitleRow));
}

// Commands that write title and caption, and draw the legend as a plot without
// axes.
std::string TextsOf(const Layout& layout) {
  std::string text;
  for (std::size_t i = 0; i < layout.title.size(); ++i) {
    text += fmt::format(
        "  set label {} at {} center font ',{}'\n", Quoted(layout.title[i]),
        layout.At(layout.width / 2.0,
                  layout.height -
                      kTitleRow * (static_cast<double>(i) + kTitleCenter)),
        kTitlePoints);
  }
  for (std::size_t i = 0; i < layout.caption.size(); ++i) {
    text += fmt::format(
        "  set label {} at {} left font ',{}' textcolor rgb '#555555'\n",
        Quoted(layout.caption[i]),
        layout.At(kRight, kCaptionRow * (static_cast<double>(
                                             layout.caption.size() - i - 1) +
                                         kCaptionCenter)),
        kSmallPoints);
  }
  const bool any = !layout.legend.empty();
  return text +
         layout.Edges(0.0, layout.width, layout.legend_bottom(),
                      layout.legend_top()) +
         fmt::format(
             "  unset border\n  unset tics\n  unset logscale\n  set xrange "
             "[0:1]\n"
             "  set yrange [0:1]\n"
             "  set key {} inside center center horizontal maxcols {} Left "
             "reverse width key_width samplen 2.8*key_scale spacing "
             "1.15*key_scale font ',{}'\n{}"
             "  set key off\n  unset label\n",
             any ? "on" : "off", layout.legend_columns, kTextPoints,
             PlotCommand(any ? layout.legend
                             : std::vector<std::string>{"NaN notitle"}));
}

// The parts of a panel's plot command.
class PlotParts {
 public:
  // `radius`: of a point, over the width of the axes.
  PlotParts(const Panel& panel, std::string data, double radius)
      : panel_(panel),
        data_(std::move(data)),
        radius_(radius),
        x_(panel.x_unit == 1.0 ? "1" : fmt::format("($1/{})", panel.x_unit)),
        columns_(FirstColumns(panel)) {}

  // Bands lie under all lines, their edges drawn thinly. Series are drawn in
  // their order, so that dashed lines lie on the solid one of the first, and
  // each has its symbols at places of its own: all can be seen where they
  // coincide.
  std::vector<std::string> Take() {
    for (const double slope : panel_.slopes) {
      parts_.push_back(
          fmt::format("{}*x with lines {}", slope, kReferenceLine));
    }
    for (std::size_t s = 0; s < columns_.size(); ++s) {
      if (panel_.by_name) {
        AddPointByName(s);
      } else if (panel_.series[s].mark == Mark::kBand) {
        AddBand(s);
      }
    }
    for (std::size_t s = 0; s < columns_.size() && !panel_.by_name; ++s) {
      AddSeries(s);
    }
    for (std::size_t s = 0; s < columns_.size() && !panel_.by_name; ++s) {
      AddSymbols(s);
    }
    // On top, thin: a method that reaches it does not hide it.
    if (panel_.horizontal && !panel_.by_name) {
      parts_.push_back(
          fmt::format("{} with lines {}", *panel_.horizontal, kReferenceLine));
    }
    return std::move(parts_);
  }

 private:
  void Add(const std::string& columns, const std::string& with) {
    parts_.push_back(fmt::format("{} using {} with {}", data_, columns, with));
  }

  void AddBand(std::size_t s) {
    const LineStyle& style = panel_.series[s].style;
    const std::size_t q1 = columns_[s] + 1;
    const std::size_t q3 = columns_[s] + 2;
    Add(fmt::format("{}:{}:{}", x_, q1, q3),
        fmt::format("filledcurves fillcolor rgb '{}' fillstyle transparent "
                    "solid {} noborder",
                    style.color, kOpacity));
    for (const std::size_t edge : {q1, q3}) {
      Add(fmt::format("{}:{}", x_, edge),
          fmt::format("lines linecolor {} {}", Transparent("a0", style.color),
                      kEdgeWords));
    }
  }

  void AddSeries(std::size_t s) {
    const Series& series = panel_.series[s];
    const std::size_t y = columns_[s];
    const std::string xy = fmt::format("{}:{}", x_, y);
    switch (series.mark) {
      case Mark::kBand:
      case Mark::kLine:
        Add(xy, "lines " + LineWords(series.style));
        break;
      case Mark::kStep:
        Add(xy, "histeps " + LineWords(series.style));
        break;
      case Mark::kStairs:
        Add(xy, "steps " + LineWords(series.style));
        break;
      case Mark::kScatter:
        Add(xy, "points " + PointWords(series.style, false));
        break;
      case Mark::kPoints:
        Add(fmt::format("{}:{}:(0):(${}-${})", x_, y + 1, y + 2, y + 1),
            fmt::format("vectors nohead linecolor {} {}",
                        Transparent("90", series.style.color), kBarWords));
        Add(fmt::format(
                "{}:({:g})", xy,
                radius_ * (panel_.x_max - panel_.x_min) / panel_.x_unit),
            Circles(series.style));
        break;
    }
  }

  void AddSymbols(std::size_t s) {
    const Series& series = panel_.series[s];
    if (HasSymbols(series)) {
      const std::size_t count = columns_.size();
      const std::size_t step =
          std::max(count, series.band.x.size() / kSymbolsPerLine);
      parts_.push_back(fmt::format(
          "{} every {}::{} using {}:{} with points {}", data_, step,
          s * step / count, x_, columns_[s], PointWords(series.style, false)));
    }
  }

  void AddPointByName(std::size_t s) {
    const LineStyle& style = panel_.series[s].style;
    const std::size_t y = columns_[s];
    Add(fmt::format("({}):{}:{}:{}", s + 1, y, y + 1, y + 2),
        fmt::format("yerrorbars linecolor rgb '{}' {}", style.color,
                    kBarByNameWords));
    Add(fmt::format("({}):{}:({})", s + 1, y,
                    kRadiusByName * static_cast<double>(columns_.size())),
        Circles(style));
  }

  static std::string Circles(const LineStyle& style) {
    return fmt::format("circles fillcolor rgb '{}' fillstyle solid noborder",
                       style.color);
  }

  const Panel& panel_;
  std::string data_;
  double radius_;
  std::string x_;
  std::vector<std::size_t> columns_;
  std::vector<std::string> parts_;
};

// Steps of 1, 2 or 5 times a power of ten, so that a narrow panel has room for
// the numbers; otherwise gnuplot chooses.
std::string TicsOf(double range, std::size_t columns) {
  constexpr std::size_t kNarrow = 3;
  constexpr double kMostTics = 5.0;
  if (columns < kNarrow || !(range > 0.0)) {
    return "autofreq";
  }
  double step = std::pow(10.0, std::floor(std::log10(range / kMostTics)));
  for (const double factor : {2.0, 2.5, 2.0}) {
    step *= range / step > kMostTics ? factor : 1.0;
  }
  return fmt::format("{:g}", step);
}

std::string XAxisOf(const Panel& panel, std::size_t columns) {
  if (!panel.by_name) {
    return fmt::format(
        "  set xtics {} norotate center font ',{}'\n  set xrange [{}:{}]\n",
        TicsOf((panel.x_max - panel.x_min) / panel.x_unit, columns),
        kTextPoints, panel.x_min / panel.x_unit, panel.x_max / panel.x_unit);
  }
  std::vector<std::string> tics;
  for (const Series& series : panel.series) {
    tics.push_back(
        fmt::format("{} {}", QuotedFormat(series.label), tics.size() + 1));
  }
  return fmt::format(
      "  set xtics ({}) rotate by {} right font ',{}'\n  set xrange [{}:{}]\n",
      fmt::join(tics, ", "), tics.size() > kMostAslant ? 90 : 20, kSmallPoints,
      1.0 - kRoomByName,
      static_cast<double>(panel.series.size()) + kRoomByName);
}

// Further numbers on a logarithmic axis that has few powers of ten: 2 and 5
// times these, and where fewer than three fit, the multiples of a step.
std::string LogTicsOf(char axis, double min, double max) {
  constexpr double kFewTens = 50.0;
  constexpr std::ptrdiff_t kFewest = 3;
  if (!(min > 0.0) || !(max / min < kFewTens)) {
    return "";
  }
  const auto power_below = [](double value) {
    return std::pow(10.0, std::floor(std::log10(value)));
  };
  std::vector<double> tics;  // those of powers of ten are there
  std::ptrdiff_t fitting = 0;
  const auto add = [&](double tic, bool is_power) {
    fitting += tic >= min && tic <= max ? 1 : 0;
    if (!is_power) {
      tics.push_back(tic);
    }
  };
  for (const double more : {1.0, 10.0, 100.0}) {  // max / min < kFewTens
    const double ten = more * power_below(min);
    add(ten, true);
    add(2.0 * ten, false);
    add(5.0 * ten, false);
  }
  if (fitting < kFewest && max > min) {
    const double about = (max - min) / kFewest;
    const double power = power_below(about);
    const double step = about < 2.0 * power   ? power
                        : about < 5.0 * power ? 2.0 * power
                                              : 5.0 * power;
    for (int i = 0; i <= static_cast<int>((max - min) / step); ++i) {
      const double tic = step * (std::ceil(min / step) + i);
      add(tic, tic < 1.000001 * power_below(1.000001 * tic));
    }
  }
  return fmt::format("  set {}tics add ({:g})\n", axis, fmt::join(tics, ","));
}

std::string PanelOf(const Figure& figure, std::size_t index,
                    const Layout& layout) {
  const Panel& panel = figure.panels[index];
  const auto limit = [&](const std::optional<double>& value) {
    return value ? fmt::format("{}", *value) : std::string("*");
  };
  std::string text =
      layout.Edges(layout.AxesLeft(index), layout.AxesRight(index),
                   layout.AxesBottom(index), layout.AxesTop(index)) +
      "  set format xy '%g'\n";
  if (panel.y_max.value_or(0.0) >= 1e6 && !panel.log_y) {
    text += "  set format y '%.2s%c'\n";  // 3.01e+07 reaches into the label
  }
  text += AxisLabelsOf(layout, panel, index);
  text += XAxisOf(panel, layout.columns);
  if (panel.log_x) {
    text += "  set logscale x\n" + LogTicsOf('x', panel.x_min / panel.x_unit,
                                             panel.x_max / panel.x_unit);
  }
  text += fmt::format(
      "  {} logscale y\n  set yrange [{}:{}]\n  set ytics autofreq\n",
      panel.log_y ? "set" : "unset", limit(panel.y_min), limit(panel.y_max));
  if (panel.log_y) {
    text +=
        LogTicsOf('y', panel.y_min.value_or(0.0), panel.y_max.value_or(1.0));
  }
  if (panel.horizontal) {
    text += fmt::format(
        "  set label {} at graph {}, first {} left offset graph 0,{} front "
        "font ',{}' textcolor rgb '#555555'\n",
        Quoted(panel.horizontal_label), kLineLabelX, *panel.horizontal,
        kLineLabelAbove, kSmallPoints);
  }
  if (panel.vertical) {
    text += fmt::format(
        "  set arrow from first {0}, graph 0 to first {0}, graph 1 nohead "
        "linecolor rgb '#888888' dashtype (1,2) linewidth 0.8\n",
        *panel.vertical / panel.x_unit);
  }
  const std::string data = Quoted(DataFileName(figure, index)) + " skip 1";
  const double radius =
      kRadius / (layout.AxesRight(index) - layout.AxesLeft(index));
  text += PlotCommand(PlotParts(panel, data, radius).Take());
  text += panel.log_x ? "  unset logscale x\n" : "";
  return text + "  unset label\n  unset arrow\n";  // not again in the next
}

}  // namespace

std::string Script(const Figure& figure,
                   const std::vector<std::string>& formats) {
  const Layout layout = LayoutOf(figure);
  std::string text = ScriptHead(figure.name, formats, layout) +
                     "  set multiplot\n" + TextsOf(layout) +
                     "  set border 3 linewidth 0.5 linecolor rgb '#444444'\n"
                     "  set tics nomirror out scale 0.4 textcolor rgb "
                     "'#222222'\n"
                     "  set xtics nomirror offset 0,0.2\n"
                     "  set ytics nomirror offset 0.4,0\n"
                     "  set grid ytics linetype 1 dashtype solid linewidth 0.4 "
                     "linecolor rgb '#dddddd'\n";
  for (std::size_t i = 0; i < figure.panels.size(); ++i) {
    text += PanelOf(figure, i, layout);
  }
  return text + "  unset multiplot\n  set output\n}\n";
}

}  // namespace plots
