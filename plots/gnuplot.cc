#include "plots/gnuplot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string_view>

#include <fmt/format.h>

#include "plots/table.h"
#include "trials/text.h"

namespace plots {
namespace {

// Layout in inches and points. One panel fills a column of a two-column paper,
// several its whole width; nothing is scaled down when the figure is included.
constexpr double kPanelWidth = 3.5;
constexpr double kSeveralPanelsWidth = 7.2;
constexpr double kAxesHeight = 1.75;
constexpr double kLeft = 0.56;  // room for the numbers and the label
constexpr double kRight = 0.12;
constexpr double kBelowAxes = 0.40;
constexpr double kLegendRow = 0.125;
constexpr double kLegendSample = 0.24;
constexpr double kCaptionRow = 0.105;
constexpr double kTitleRow = 0.17;
constexpr double kTitlePoints = 7.5;
constexpr double kTextPoints = 6.5;
constexpr double kSmallPoints = 5.5;
constexpr double kCharacterWidth = 0.61;  // of the font size, on average
constexpr double kPointsPerInch = 72.0;

constexpr std::array<std::string_view, 7> kColors = {"#0072B2",
                                                     "#009E73",
                                                     "#CC79A7",
                                                     "#E69F00",
                                                     "#56B4E9",
                                                     "#000000",
                                                     "#999999"};
constexpr std::string_view kEmphasisColor = "#D55E00";
constexpr std::array<std::string_view, 7> kDashes = {"(8,3)",
                                                     "(3,2)",
                                                     "(9,3,2,3)",
                                                     "(5,2)",
                                                     "(2,1.5)",
                                                     "(6,2,2,2,2,2)",
                                                     "(12,4)"};

std::string DashOf(const LineStyle& style) {
  return style.dash < 0
             ? "solid"
             : std::string(kDashes[static_cast<std::size_t>(style.dash)]);
}

// Text in single quotes, where gnuplot interprets nothing.
std::string Quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    quoted += c == '\'' ? "''" : std::string(1, c == '\n' ? ' ' : c);
  }
  return quoted + "'";
}

// Breaks at spaces into lines of at most `width` characters.
std::vector<std::string> Wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  for (const std::string_view word : trials::Split(text, ' ')) {
    if (lines.empty() || lines.back().size() + 1 + word.size() > width) {
      lines.emplace_back(word);
    } else {
      lines.back() += fmt::format(" {}", word);
    }
  }
  return lines;
}

// The width of so many characters, in inches.
double TextWidth(std::size_t characters, double points) {
  return static_cast<double>(characters) * kCharacterWidth * points /
         kPointsPerInch;
}

struct LegendEntry {
  std::string label;
  std::string line;  // its style, in gnuplot's words
};

std::string LineWords(const LineStyle& style) {
  return fmt::format("linecolor rgb '{}' dashtype {} linewidth {}",
                     style.color,
                     DashOf(style),
                     style.width);
}

constexpr std::string_view kReferenceLine =
    "linecolor rgb '#555555' dashtype (4,3) linewidth 0.7";

std::vector<LegendEntry> LegendOf(const Panel& panel) {
  std::vector<LegendEntry> entries;
  for (const Series& series : panel.series) {
    entries.push_back({series.label, LineWords(series.style)});
  }
  if (panel.horizontal) {
    entries.push_back({panel.horizontal_label, std::string(kReferenceLine)});
  }
  return entries;
}

// Where everything stands, in inches from the lower left corner.
struct Layout {
  double width = 0.0;
  double height = 0.0;
  double axes_bottom = 0.0;
  double axes_top = 0.0;
  double panel_width = 0.0;
  std::vector<std::string> title;
  std::vector<std::string> caption;
  std::vector<LegendEntry> legend;
  std::size_t legend_columns = 1;
  double legend_column_width = 0.0;
};

double TitleHeight(const Layout& layout) {
  return kTitleRow * static_cast<double>(layout.title.size());
}

Layout LayoutOf(const Figure& figure) {
  Layout layout;
  const std::size_t panels = figure.panels.size();
  layout.width = panels == 1 ? kPanelWidth : kSeveralPanelsWidth;
  layout.panel_width = layout.width / static_cast<double>(panels);
  const double text_width = layout.width - 2.0 * kRight;
  layout.caption = Wrapped(
      figure.caption,
      static_cast<std::size_t>(text_width / TextWidth(1, kSmallPoints)));
  layout.title = Wrapped(
      figure.title,
      static_cast<std::size_t>(text_width / TextWidth(1, kTitlePoints)));
  layout.legend = LegendOf(figure.panels.front());
  std::size_t longest = 1;
  for (const LegendEntry& entry : layout.legend) {
    longest = std::max(longest, entry.label.size());
  }
  layout.legend_column_width =
      kLegendSample + 0.12 + TextWidth(longest, kTextPoints);
  layout.legend_columns = std::clamp<std::size_t>(
      static_cast<std::size_t>(text_width / layout.legend_column_width),
      1,
      std::max<std::size_t>(layout.legend.size(), 1));
  const std::size_t rows = (layout.legend.size() + layout.legend_columns - 1) /
                           layout.legend_columns;
  layout.axes_bottom =
      kBelowAxes + kCaptionRow * static_cast<double>(layout.caption.size());
  layout.axes_top = layout.axes_bottom + kAxesHeight;
  layout.height = layout.axes_top + 0.08 +
                  kLegendRow * static_cast<double>(rows) + TitleHeight(layout);
  return layout;
}

std::string TerminalOf(std::string_view format, const Layout& layout) {
  // fontconfig on Debian depends on this font, so every gnuplot there has it.
  constexpr std::string_view kFont = "DejaVu Sans";
  if (format == "pdf") {
    return fmt::format(
        "pdfcairo noenhanced size {}in,{:.3f}in font '{},{}' fontscale 1 "
        "linewidth 1 dashlength 0.5 background rgb 'white'",
        layout.width,
        layout.height,
        kFont,
        kTextPoints);
  }
  // Both in points of the page, enlarged.
  constexpr double kPngPixelsPerInch = 300.0;
  constexpr double kSvgUnitsPerInch = 144.0;
  const bool png = format == "png";
  const double per_inch = png ? kPngPixelsPerInch : kSvgUnitsPerInch;
  return fmt::format(
      "{} noenhanced size {:.0f},{:.0f}{} font '{},{}' fontscale {:.4f} "
      "linewidth {:.4f} dashlength 0.5 background rgb 'white'",
      png ? "pngcairo" : "svg",
      layout.width * per_inch,
      layout.height * per_inch,
      png ? "" : " dynamic",
      kFont,
      kTextPoints,
      per_inch / kPointsPerInch,
      per_inch / kPointsPerInch);
}

// Title, legend and caption.
std::string TextsOf(const Layout& layout) {
  const auto at = [&](double x, double y) {
    return fmt::format(
        "screen {:.4f},{:.4f}", x / layout.width, y / layout.height);
  };
  std::string text;
  for (std::size_t i = 0; i < layout.title.size(); ++i) {
    text += fmt::format(
        "  set label {} at {} center font ',{}'\n",
        Quoted(layout.title[i]),
        at(layout.width / 2.0,
           layout.height - kTitleRow * (static_cast<double>(i) + 0.6)),
        kTitlePoints);
  }
  const double legend_left =
      (layout.width - static_cast<double>(layout.legend_columns) *
                          layout.legend_column_width) /
      2.0;
  for (std::size_t i = 0; i < layout.legend.size(); ++i) {
    const double x =
        legend_left + layout.legend_column_width *
                          static_cast<double>(i % layout.legend_columns);
    const double y =
        layout.height - TitleHeight(layout) -
        kLegendRow * (static_cast<double>(i / layout.legend_columns) + 0.5);
    text += fmt::format("  set arrow from {} to {} nohead {}\n",
                        at(x, y),
                        at(x + kLegendSample, y),
                        layout.legend[i].line);
    text += fmt::format("  set label {} at {} left\n",
                        Quoted(layout.legend[i].label),
                        at(x + kLegendSample + 0.05, y));
  }
  for (std::size_t i = 0; i < layout.caption.size(); ++i) {
    text += fmt::format(
        "  set label {} at {} left font ',{}' textcolor rgb '#555555'\n",
        Quoted(layout.caption[i]),
        at(kRight,
           kCaptionRow *
               (static_cast<double>(layout.caption.size() - i) - 0.35)),
        kSmallPoints);
  }
  return text;
}

std::string Column(std::size_t column, double unit) {
  return unit == 1.0 ? std::to_string(column)
                     : fmt::format("(${}/{})", column, unit);
}

// "plot a, \ b, \ c".
std::string PlotCommand(const std::vector<std::string>& parts) {
  std::string text = "  plot ";
  for (std::size_t i = 0; i < parts.size(); ++i) {
    text += i == 0 ? parts[i] : ", \\\n       " + parts[i];
  }
  return text + "\n";
}

// The bands lie under all lines. The first series is drawn last.
std::vector<std::string> LinesOf(const Panel& panel, const std::string& data) {
  std::vector<std::string> parts;
  const std::string x = Column(1, panel.x_unit);
  for (std::size_t s = 0; s < panel.series.size(); ++s) {
    parts.push_back(fmt::format(
        "{} using {}:{}:{} with filledcurves fillcolor rgb '{}' fillstyle "
        "transparent solid 0.15 noborder",
        data,
        x,
        Column(3 * s + 3, panel.y_unit),
        Column(3 * s + 4, panel.y_unit),
        panel.series[s].style.color));
  }
  if (panel.horizontal) {
    parts.push_back(fmt::format(
        "{} with lines {}", *panel.horizontal / panel.y_unit, kReferenceLine));
  }
  for (std::size_t s = panel.series.size(); s-- > 0;) {
    parts.push_back(fmt::format("{} using {}:{} with lines {}",
                                data,
                                x,
                                Column(3 * s + 2, panel.y_unit),
                                LineWords(panel.series[s].style)));
  }
  return parts;
}

// One point with quartile bars per series.
std::vector<std::string> PointsOf(const Panel& panel, const std::string& data) {
  std::vector<std::string> parts;
  for (std::size_t s = 0; s < panel.series.size(); ++s) {
    parts.push_back(fmt::format(
        "{} using ({}):{}:{}:{} with yerrorbars linecolor rgb '{}' linewidth "
        "1.2 pointtype 7 pointsize 0.45",
        data,
        s + 1,
        Column(3 * s + 2, panel.y_unit),
        Column(3 * s + 3, panel.y_unit),
        Column(3 * s + 4, panel.y_unit),
        panel.series[s].style.color));
  }
  return parts;
}

std::string XAxisOf(const Panel& panel) {
  if (!panel.by_name) {
    return fmt::format("  set xtics autofreq norotate\n  set xrange [{}:{}]\n",
                       panel.x_min / panel.x_unit,
                       panel.x_max / panel.x_unit);
  }
  std::string tics;
  for (std::size_t s = 0; s < panel.series.size(); ++s) {
    tics += fmt::format(
        "{}{} {}", s == 0 ? "" : ", ", Quoted(panel.series[s].label), s + 1);
  }
  return fmt::format(
      "  set xtics ({}) rotate by 20 right font ',{}'\n  set xrange [0.4:{}]\n",
      tics,
      kSmallPoints,
      static_cast<double>(panel.series.size()) + 0.6);
}

std::string PanelOf(const Figure& figure,
                    std::size_t index,
                    const Layout& layout) {
  const Panel& panel = figure.panels[index];
  const double left = layout.panel_width * static_cast<double>(index) + kLeft;
  const double right =
      layout.panel_width * static_cast<double>(index + 1) - kRight;
  const auto limit = [&](const std::optional<double>& value) {
    return value ? fmt::format("{}", *value / panel.y_unit) : std::string("*");
  };
  std::string text = fmt::format(
      "  set lmargin at screen {:.4f}\n  set rmargin at screen {:.4f}\n"
      "  set bmargin at screen {:.4f}\n  set tmargin at screen {:.4f}\n"
      "  set xlabel {} offset 0,0.4\n  set ylabel {} offset 1,0\n",
      left / layout.width,
      right / layout.width,
      layout.axes_bottom / layout.height,
      layout.axes_top / layout.height,
      Quoted(panel.x_label),
      Quoted(panel.y_label));
  text += XAxisOf(panel);
  text += fmt::format("  {} logscale y\n  set yrange [{}:{}]\n",
                      panel.log_y ? "set" : "unset",
                      limit(panel.y_min),
                      limit(panel.y_max));
  if (panel.vertical) {
    text += fmt::format(
        "  set arrow 1000 from first {0}, graph 0 to first {0}, graph 1 nohead "
        "linecolor rgb '#888888' dashtype (1,2) linewidth 0.8\n",
        *panel.vertical / panel.x_unit);
  }
  const std::string data = Quoted(DataFileName(figure, index)) + " skip 1";
  text +=
      PlotCommand(panel.by_name ? PointsOf(panel, data) : LinesOf(panel, data));
  if (panel.vertical) {
    text += "  unset arrow 1000\n";
  }
  // Texts belong to the figure, not to each panel.
  return text + (index == 0 ? "  unset label\n  unset arrow\n" : "");
}

}  // namespace

LineStyle StyleOf(int index, bool emphasised) {
  if (emphasised) {
    return {.color = std::string(kEmphasisColor), .dash = -1, .width = 1.7};
  }
  const auto i = static_cast<std::size_t>(index) % kColors.size();
  return {.color = std::string(kColors[i]),
          .dash = static_cast<int>(i),
          .width = 1.1};
}

std::string DataFileName(const Figure& figure, std::size_t panel) {
  return figure.panels.size() == 1
             ? figure.name + ".csv"
             : fmt::format("{}-{}.csv", figure.name, figure.panels[panel].name);
}

std::string DataCsv(const Panel& panel) {
  std::vector<std::string> cells = {panel.x_column};
  for (const Series& series : panel.series) {
    for (const char* column : {"median", "q1", "q3"}) {
      cells.push_back(fmt::format("{}_{}", series.name, column));
    }
  }
  std::string text = CsvRow(cells);
  for (std::size_t i = 0; i < panel.series.front().band.x.size(); ++i) {
    cells = {trials::ExactText(panel.series.front().band.x[i])};
    for (const Series& series : panel.series) {
      const Quartiles& y = series.band.y[i];
      for (const double value : {y.median, y.q1, y.q3}) {
        cells.push_back(trials::ExactText(value));
      }
    }
    text += CsvRow(cells);
  }
  return text;
}

std::string Script(const Figure& figure,
                   const std::vector<std::string>& formats) {
  const Layout layout = LayoutOf(figure);
  const bool several = figure.panels.size() > 1;
  std::string text = fmt::format(
      "# Draws the figure '{0}' from the data beside it: gnuplot {0}.gp\n"
      "reset session\nset encoding utf8\nset datafile separator ','\n",
      figure.name);
  for (const std::string& format : formats) {
    text += fmt::format(
        "terminal_{} = \"{}\"\n", format, TerminalOf(format, layout));
  }
  std::string list;
  for (const std::string& format : formats) {
    list += (list.empty() ? "" : " ") + format;
  }
  text += fmt::format(
      "do for [format in '{}'] {{\n"
      "  eval 'set terminal '.value('terminal_'.format)\n"
      "  set output '{}.'.format\n"
      "  set border 3 linewidth 0.5 linecolor rgb '#444444'\n"
      "  set tics nomirror out scale 0.4 textcolor rgb '#222222'\n"
      "  set xtics offset 0,0.2\n"
      "  set ytics offset 0.4,0\n"
      "  set grid ytics linetype 1 dashtype solid linewidth 0.4 linecolor rgb "
      "'#dddddd'\n"
      "  set key off\n",
      list,
      figure.name);
  text += TextsOf(layout);
  text += several ? "  set multiplot\n" : "";
  for (std::size_t i = 0; i < figure.panels.size(); ++i) {
    text += PanelOf(figure, i, layout);
  }
  return text + (several ? "  unset multiplot\n" : "") + "  set output\n}\n";
}

}  // namespace plots
