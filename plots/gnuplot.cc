#include "plots/gnuplot.h"

#include <cmath>
#include <cstddef>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "plots/figure_layout.h"

namespace plots {
namespace {

// Of a quartile band.
constexpr double kOpacity = 0.08;
constexpr double kEmphasisedOpacity = 0.18;

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

// Bars without caps, and circles over them: these have their size in units of
// the x axis, so it is the same in every terminal.
std::vector<std::string> PointsWithBars(const Panel& panel,
                                        const std::string& data,
                                        std::size_t series) {
  constexpr double kRadius = 1.0 / 150.0;  // of the axis
  const std::string x = Column(1, panel.x_unit);
  const std::string& color = panel.series[series].style.color;
  return {fmt::format("{} using {}:{}:(0):(${}-${}) with vectors nohead "
                      "linecolor rgb '#90{}' linewidth 0.6",
                      data,
                      x,
                      3 * series + 3,
                      3 * series + 4,
                      3 * series + 3,
                      color.substr(1)),
          fmt::format("{} using {}:{}:({:g}) with circles fillcolor rgb '{}' "
                      "fillstyle solid noborder",
                      data,
                      x,
                      3 * series + 2,
                      kRadius * (panel.x_max - panel.x_min) / panel.x_unit,
                      color)};
}

// The bands lie under all lines, their edges drawn thinly. Series are drawn in
// their order, so that thin dashed lines lie on the thick solid one of the
// first and all can be seen where they coincide.
std::vector<std::string> LinesOf(const Panel& panel, const std::string& data) {
  std::vector<std::string> parts;
  const std::string x = Column(1, panel.x_unit);
  for (std::size_t s = 0; s < panel.series.size(); ++s) {
    if (panel.series[s].mark == Mark::kPoints) {
      continue;
    }
    parts.push_back(fmt::format(
        "{} using {}:{}:{} with filledcurves fillcolor rgb '{}' fillstyle "
        "transparent solid {} noborder",
        data,
        x,
        3 * s + 3,
        3 * s + 4,
        panel.series[s].style.color,
        panel.series[s].style.dash < 0 ? kEmphasisedOpacity : kOpacity));
    for (const std::size_t edge : {3 * s + 3, 3 * s + 4}) {
      parts.push_back(fmt::format(
          "{} using {}:{} with lines linecolor rgb '#a0{}' dashtype solid "
          "linewidth 0.4",
          data,
          x,
          edge,
          panel.series[s].style.color.substr(1)));
    }
  }
  for (std::size_t s = 0; s < panel.series.size(); ++s) {
    const Series& series = panel.series[s];
    if (series.mark == Mark::kPoints) {
      for (std::string& part : PointsWithBars(panel, data, s)) {
        parts.push_back(std::move(part));
      }
      continue;
    }
    parts.push_back(fmt::format("{} using {}:{} with lines {}",
                                data,
                                x,
                                3 * s + 2,
                                LineWords(series.style)));
  }
  if (panel.diagonal) {
    parts.push_back(fmt::format("x with lines {}", ReferenceLineWords()));
  }
  // On top, thin: a method that reaches it does not hide it.
  if (panel.horizontal) {
    parts.push_back(fmt::format(
        "{} with lines {}", *panel.horizontal, ReferenceLineWords()));
  }
  return parts;
}

// One point with quartile bars per series.
std::vector<std::string> PointsOf(const Panel& panel, const std::string& data) {
  std::vector<std::string> parts;
  for (std::size_t s = 0; s < panel.series.size(); ++s) {
    const std::string& color = panel.series[s].style.color;
    parts.push_back(
        fmt::format("{} using ({}):{}:{}:{} with yerrorbars linecolor rgb '{}' "
                    "linewidth 1.2 pointtype 0",
                    data,
                    s + 1,
                    3 * s + 2,
                    3 * s + 3,
                    3 * s + 4,
                    color));
    // A circle has its size in units of the x axis, so it is the same in every
    // terminal; a point is not.
    parts.push_back(fmt::format(
        "{} using ({}):{}:(0.06) with circles fillcolor rgb '{}' fillstyle "
        "solid noborder",
        data,
        s + 1,
        3 * s + 2,
        color));
  }
  return parts;
}

// Steps of 1, 2 or 5 times a power of ten, so that a narrow panel has room for
// the numbers; elsewhere gnuplot chooses.
std::string TicsOf(double range, std::size_t panels) {
  constexpr std::size_t kNarrow = 4;
  constexpr double kMostTics = 5.0;
  if (panels < kNarrow || !(range > 0.0)) {
    return "autofreq";
  }
  double step = std::pow(10.0, std::floor(std::log10(range / kMostTics)));
  for (const double factor : {2.0, 2.5, 2.0}) {
    step *= range / step > kMostTics ? factor : 1.0;
  }
  return fmt::format("{:g}", step);
}

std::string XAxisOf(const Panel& panel, std::size_t panels) {
  if (!panel.by_name) {
    return fmt::format(
        "  set xtics {} norotate font ',{}'\n  set xrange [{}:{}]\n",
        TicsOf((panel.x_max - panel.x_min) / panel.x_unit, panels),
        kTextPoints,
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
  const auto limit = [&](const std::optional<double>& value) {
    return value ? fmt::format("{}", *value) : std::string("*");
  };
  std::string text = fmt::format(
      "  set lmargin at screen {:.4f}\n  set rmargin at screen {:.4f}\n"
      "  set bmargin at screen {:.4f}\n  set tmargin at screen {:.4f}\n"
      "  set format xy '%g'\n",
      AxesLeft(layout, index) / layout.width,
      AxesRight(layout, index) / layout.width,
      layout.axes_bottom / layout.height,
      layout.axes_top / layout.height);
  text += AxisLabelsOf(layout, panel, index);
  text += XAxisOf(panel, figure.panels.size());
  text += fmt::format("  {} logscale y\n  set yrange [{}:{}]\n",
                      panel.log_y ? "set" : "unset",
                      limit(panel.y_min),
                      limit(panel.y_max));
  if (panel.horizontal) {
    text += fmt::format(
        "  set label {} at graph 0.015, first {} left offset graph 0,0.036 "
        "front font "
        "',{}' textcolor rgb '#555555'\n",
        Quoted(panel.horizontal_label),
        *panel.horizontal,
        kSmallPoints);
  }
  if (panel.vertical) {
    text += fmt::format(
        "  set arrow from first {0}, graph 0 to first {0}, graph 1 nohead "
        "linecolor rgb '#888888' dashtype (1,2) linewidth 0.8\n",
        *panel.vertical / panel.x_unit);
  }
  const std::string data = Quoted(DataFileName(figure, index)) + " skip 1";
  text +=
      PlotCommand(panel.by_name ? PointsOf(panel, data) : LinesOf(panel, data));
  return text + "  unset label\n  unset arrow\n";  // not again in the next
}

}  // namespace

std::string Script(const Figure& figure,
                   const std::vector<std::string>& formats) {
  const Layout layout = LayoutOf(figure);
  const bool several = figure.panels.size() > 1;
  std::string text = ScriptHead(figure.name, formats, layout);
  text +=
      "  set border 3 linewidth 0.5 linecolor rgb '#444444'\n"
      "  set tics nomirror out scale 0.4 textcolor rgb '#222222'\n"
      "  set xtics offset 0,0.2\n"
      "  set ytics offset 0.4,0\n"
      "  set grid ytics linetype 1 dashtype solid linewidth 0.4 linecolor rgb "
      "'#dddddd'\n"
      "  set key off\n";
  text += TextsOf(layout);
  text += several ? "  set multiplot\n" : "";
  for (std::size_t i = 0; i < figure.panels.size(); ++i) {
    text += PanelOf(figure, i, layout);
  }
  return text + (several ? "  unset multiplot\n" : "") + "  set output\n}\n";
}

}  // namespace plots
