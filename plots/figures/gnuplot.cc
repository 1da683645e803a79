#include "plots/figures/gnuplot.h"

#include <cmath>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "plots/figures/layout.h"

namespace plots {
namespace {

// Of a quartile band.
constexpr double kOpacity = 0.08;
constexpr double kEmphasizedOpacity = 0.18;
constexpr std::string_view kEdgeWords = "dashtype solid linewidth 0.4";
// Points with bars. A circle has its size in units of the x axis, so it is the
// same in every terminal; a point is not.
constexpr std::string_view kBarWords = "linewidth 0.6";
constexpr double kRadius = 1.0 / 150.0;  // of the axis
// The same where each series has a place, 1 apart, on the x axis.
constexpr std::string_view kBarByNameWords = "linewidth 1.2 pointtype 0";
constexpr double kRadiusByName = 0.06;
constexpr double kRoomByName = 0.6;  // next to the first and the last
// The label of a horizontal line, as shares of the axes.
constexpr double kLineLabelX = 0.015;
constexpr double kLineLabelAbove = 0.036;

// A color as gnuplot takes it with a transparency (hexadecimal).
std::string Transparent(std::string_view transparency,
                        const std::string& color) {
  return fmt::format("rgb '#{}{}'", transparency, color.substr(1));
}

// "plot a, \ b, \ c".
std::string PlotCommand(const std::vector<std::string>& parts) {
  return fmt::format("  plot {}\n", fmt::join(parts, ", \\\n       "));
}

// The parts of a panel's plot command.
class PlotParts {
 public:
  PlotParts(const Panel& panel, std::string data)
      : panel_(panel),
        data_(std::move(data)),
        x_(panel.x_unit == 1.0 ? "1" : fmt::format("($1/{})", panel.x_unit)),
        columns_(FirstColumns(panel)) {}

  // Bands lie under all lines, their edges drawn thinly. Series are drawn in
  // their order, so that thin dashed lines lie on the thick solid one of the
  // first and all can be seen where they coincide.
  std::vector<std::string> Take() {
    for (const double slope : panel_.slopes) {
      parts_.push_back(
          fmt::format("{}*x with lines {}", slope, ReferenceLineWords()));
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
    // On top, thin: a method that reaches it does not hide it.
    if (panel_.horizontal && !panel_.by_name) {
      parts_.push_back(fmt::format("{} with lines {}", *panel_.horizontal,
                                   ReferenceLineWords()));
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
                    style.color,
                    style.dash < 0 ? kEmphasizedOpacity : kOpacity));
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
                kRadius * (panel_.x_max - panel_.x_min) / panel_.x_unit),
            Circles(series.style));
        break;
    }
  }

  void AddPointByName(std::size_t s) {
    const LineStyle& style = panel_.series[s].style;
    const std::size_t y = columns_[s];
    Add(fmt::format("({}):{}:{}:{}", s + 1, y, y + 1, y + 2),
        fmt::format("yerrorbars linecolor rgb '{}' {}", style.color,
                    kBarByNameWords));
    Add(fmt::format("({}):{}:({})", s + 1, y, kRadiusByName), Circles(style));
  }

  static std::string Circles(const LineStyle& style) {
    return fmt::format("circles fillcolor rgb '{}' fillstyle solid noborder",
                       style.color);
  }

  const Panel& panel_;
  std::string data_;
  std::string x_;
  std::vector<std::size_t> columns_;
  std::vector<std::string> parts_;
};

// Steps of 1, 2 or 5 times a power of ten, so that a narrow panel has room for
// the numbers; otherwise gnuplot chooses.
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
        TicsOf((panel.x_max - panel.x_min) / panel.x_unit, panels), kTextPoints,
        panel.x_min / panel.x_unit, panel.x_max / panel.x_unit);
  }
  std::vector<std::string> tics;
  for (const Series& series : panel.series) {
    tics.push_back(
        fmt::format("{} {}", QuotedFormat(series.label), tics.size() + 1));
  }
  return fmt::format(
      "  set xtics ({}) rotate by 20 right font ',{}'\n  set xrange [{}:{}]\n",
      fmt::join(tics, ", "), kSmallPoints, 1.0 - kRoomByName,
      static_cast<double>(panel.series.size()) + kRoomByName);
}

std::string PanelOf(const Figure& figure, std::size_t index,
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
      layout.axes_bottom / layout.height, layout.axes_top / layout.height);
  text += AxisLabelsOf(layout, panel, index);
  text += XAxisOf(panel, figure.panels.size());
  text += panel.log_x ? "  set logscale x\n" : "";
  text += fmt::format("  {} logscale y\n  set yrange [{}:{}]\n",
                      panel.log_y ? "set" : "unset", limit(panel.y_min),
                      limit(panel.y_max));
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
  text += PlotCommand(PlotParts(panel, data).Take());
  text += panel.log_x ? "  unset logscale x\n" : "";
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
