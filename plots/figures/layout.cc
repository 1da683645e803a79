#include "plots/figures/layout.h"

#include <algorithm>
#include <array>
#include <numeric>

#include <fmt/format.h>

#include "plots/table.h"

namespace plots {
namespace {

// Layout in inches and points. One panel fills a column of a two-column paper,
// several its whole width; nothing is scaled down when the figure is included.
constexpr double kPanelWidth = 3.5;
constexpr double kSeveralPanelsWidth = 7.2;
constexpr double kLeastPanelWidth = 1.8;  // of several
constexpr double kAxesHeight = 1.75;
constexpr double kLeft = 0.56;  // room for the numbers and the label
constexpr double kRight = 0.12;
constexpr double kBelowAxes = 0.40;
constexpr double kXLabelBelow = 0.27;
constexpr double kYLabelBeside = 0.47;
constexpr double kLegendRow = 0.125;
constexpr double kLegendSample = 0.24;
constexpr double kCaptionRow = 0.105;
constexpr double kTitleRow = 0.17;
constexpr double kTitlePoints = 7.5;
constexpr double kAboveAxes = 0.08;
constexpr double kTitleCenter = 0.6;     // of its row, from its upper edge
constexpr double kCaptionCenter = 0.65;  // of its row, from its lower edge
constexpr double kLegendGap = 0.05;      // between a sample and its label
constexpr double kLegendRight = 0.1;     // after a label
constexpr double kProseWidth = 0.54;     // of a character, over the font size
constexpr double kCapitalWidth = 0.66;
constexpr double kSmallWidth = 0.52;
constexpr double kPointsPerInch = 72.0;

constexpr std::array<std::string_view, 7> kDashes = {
    "(10,3)", "(4,2)",         "(10,3,2,3)", "(6,4)",
    "(2,2)",  "(8,2,2,2,2,2)", "(14,5)"};

// As few lines as possible, of as equal length as possible.
std::vector<std::string> Wrapped(std::string_view text, std::size_t width) {
  const std::size_t lines = Wrap(text, width).size();
  while (width > 1 && Wrap(text, width - 1).size() == lines) {
    --width;
  }
  return Wrap(text, width);
}

std::size_t CharactersIn(double width, double points) {
  return static_cast<std::size_t>(width * kPointsPerInch /
                                  (kProseWidth * points));
}

// Every label once.
std::vector<LegendEntry> LegendOf(const Figure& figure) {
  std::vector<LegendEntry> entries;
  for (const Panel& panel : figure.panels) {
    for (const Series& series : panel.series) {
      const bool known = std::any_of(
          entries.begin(), entries.end(),
          [&](const auto& entry) { return entry.label == series.label; });
      if (!known && !series.label.empty()) {
        const bool filled = series.mark == Mark::kPoints;
        const bool is_point = filled || series.mark == Mark::kScatter;
        entries.push_back({series.label,
                           is_point ? PointWords(series.style, filled)
                                    : LineWords(series.style),
                           is_point});
      }
    }
  }
  return entries;
}

double EntryWidth(const LegendEntry& entry) {
  const auto capitals = static_cast<double>(
      std::count_if(entry.label.begin(), entry.label.end(),
                    [](char c) { return c >= 'A' && c <= 'Z'; }));
  const double others = static_cast<double>(entry.label.size()) - capitals;
  return kLegendSample + kLegendGap + kLegendRight +
         (capitals * kCapitalWidth + others * kSmallWidth) * kTextPoints /
             kPointsPerInch;
}

// The entries row by row in `columns` columns, each as wide as its widest.
std::vector<double> ColumnWidths(const std::vector<LegendEntry>& legend,
                                 std::size_t columns) {
  std::vector<double> widths(columns, 0.0);
  for (std::size_t i = 0; i < legend.size(); ++i) {
    double& width = widths[i % columns];
    width = std::max(width, EntryWidth(legend[i]));
  }
  return widths;
}

// In as few rows as there is room for, and then in as few columns.
std::vector<double> LegendColumns(const std::vector<LegendEntry>& legend,
                                  double text_width) {
  for (std::size_t rows = 1; rows < legend.size(); ++rows) {
    const std::size_t columns = (legend.size() + rows - 1) / rows;
    std::vector<double> widths = ColumnWidths(legend, columns);
    if (std::accumulate(widths.begin(), widths.end(), 0.0) <= text_width) {
      return widths;
    }
  }
  return ColumnWidths(legend, 1);
}

double TitleHeight(const Layout& layout) {
  return kTitleRow * static_cast<double>(layout.title.size());
}

}  // namespace

Layout LayoutOf(const Figure& figure) {
  Layout layout;
  const std::size_t panels = figure.panels.size();
  layout.width = panels == 1
                     ? kPanelWidth
                     : std::max(kSeveralPanelsWidth,
                                kLeastPanelWidth * static_cast<double>(panels));
  layout.panel_width = layout.width / static_cast<double>(panels);
  const double text_width = layout.width - 2.0 * kRight;
  layout.caption =
      Wrapped(figure.caption, CharactersIn(text_width, kSmallPoints));
  layout.title = Wrapped(figure.title, CharactersIn(text_width, kTitlePoints));
  layout.legend = LegendOf(figure);
  layout.legend_column_widths = LegendColumns(layout.legend, text_width);
  const std::size_t columns =
      std::max<std::size_t>(layout.legend_column_widths.size(), 1);
  const std::size_t rows = (layout.legend.size() + columns - 1) / columns;
  layout.axes_bottom =
      kBelowAxes + kCaptionRow * static_cast<double>(layout.caption.size());
  layout.axes_top =
      layout.axes_bottom +
      (figure.square ? layout.panel_width - kLeft - kRight : kAxesHeight);
  layout.height = layout.axes_top + kAboveAxes +
                  kLegendRow * static_cast<double>(rows) + TitleHeight(layout);
  return layout;
}

double AxesLeft(const Layout& layout, std::size_t panel) {
  return layout.panel_width * static_cast<double>(panel) + kLeft;
}

double AxesRight(const Layout& layout, std::size_t panel) {
  return layout.panel_width * static_cast<double>(panel + 1) - kRight;
}

std::string TerminalOf(std::string_view format, const Layout& layout) {
  // fontconfig on Debian depends on this font, so every gnuplot there has it.
  constexpr std::string_view kFont = "DejaVu Sans";
  // These terminals take a point of a font for 1/72 inch of a screen of 96
  // dots per inch, and pdfcairo half a point for the unit of line width.
  constexpr double kFontPointsPerInch = 96.0;
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
      per_inch / kFontPointsPerInch, per_inch / kPointsPerInch);
}

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
      "  set output '{0}.'.format\n",
      name, terminals, fmt::join(formats, " "));
}

std::string At(const Layout& layout, double x, double y) {
  return fmt::format("screen {:.4f},{:.4f}", x / layout.width,
                     y / layout.height);
}

std::string AxisLabelsOf(const Layout& layout, const Panel& panel,
                         std::size_t index) {
  const double left = AxesLeft(layout, index);
  return fmt::format(
      "  set label {} at {} center\n  set label {} at {} center rotate by 90\n",
      Quoted(panel.x_label),
      At(layout, 0.5 * (left + AxesRight(layout, index)),
         layout.axes_bottom - kXLabelBelow),
      Quoted(panel.y_label),
      At(layout, left - kYLabelBeside,
         0.5 * (layout.axes_bottom + layout.axes_top)));
}

std::string TextsOf(const Layout& layout) {
  const auto at = [&](double x, double y) { return At(layout, x, y); };
  std::string text;
  for (std::size_t i = 0; i < layout.title.size(); ++i) {
    text += fmt::format(
        "  set label {} at {} center font ',{}'\n", Quoted(layout.title[i]),
        at(layout.width / 2.0,
           layout.height - kTitleRow * (static_cast<double>(i) + kTitleCenter)),
        kTitlePoints);
  }
  const std::vector<double>& widths = layout.legend_column_widths;
  const double legend_left =
      (layout.width - std::accumulate(widths.begin(), widths.end(), 0.0)) / 2.0;
  for (std::size_t i = 0; i < layout.legend.size(); ++i) {
    const std::size_t column = i % widths.size();
    const double x = std::accumulate(
        widths.begin(), widths.begin() + static_cast<std::ptrdiff_t>(column),
        legend_left);
    const std::size_t row = i / widths.size();
    const double y = layout.height - TitleHeight(layout) -
                     kLegendRow * (static_cast<double>(row) + 0.5);
    const LegendEntry& entry = layout.legend[i];
    text += entry.is_point
                ? fmt::format("  set label '' at {} point {}\n",
                              at(x + 0.5 * kLegendSample, y), entry.style)
                : fmt::format("  set arrow from {} to {} nohead {}\n", at(x, y),
                              at(x + kLegendSample, y), entry.style);
    text += fmt::format("  set label {} at {} left\n", Quoted(entry.label),
                        at(x + kLegendSample + kLegendGap, y));
  }
  for (std::size_t i = 0; i < layout.caption.size(); ++i) {
    text += fmt::format(
        "  set label {} at {} left font ',{}' textcolor rgb '#555555'\n",
        Quoted(layout.caption[i]),
        at(kRight,
           kCaptionRow * (static_cast<double>(layout.caption.size() - i - 1) +
                          kCaptionCenter)),
        kSmallPoints);
  }
  return text;
}

std::string LineWords(const LineStyle& style) {
  return fmt::format("linecolor rgb '{}' dashtype {} linewidth {}", style.color,
                     style.dash < 0 ? "solid" : kDashes[style.dash],
                     style.width);
}

std::string PointWords(const LineStyle& style, bool filled) {
  constexpr int kCircle = 6;
  constexpr int kDisk = 7;
  if (style.symbol > 0) {
    return fmt::format(
        "pointtype {} pointsize 0.6 linewidth 1.2 linecolor rgb '{}'",
        style.symbol, style.color);
  }
  return fmt::format(
      "pointtype {} pointsize 0.35 linewidth 0.8 linecolor rgb '{}'",
      filled ? kDisk : kCircle, style.color);
}

std::string ReferenceLineWords() {
  return "linecolor rgb '#555555' dashtype (4,3) linewidth 0.7";
}

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

std::string QuotedFormat(std::string_view text) {
  std::string format;
  for (const char c : text) {
    format += c == '%' ? "%%" : std::string(1, c);
  }
  return Quoted(format);
}

}  // namespace plots
