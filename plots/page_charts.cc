#include <algorithm>
#include <cmath>
#include <string>

#include <fmt/format.h>

#include "common/units.h"
#include "plots/page_parts.h"

namespace plots {
namespace {

using trials::Outcome;
using trials::Trial;

// The range of a linear axis from 0, and the distance of its ticks.
struct Scale {
  explicit Scale(double largest) {
    const double raw = std::max(largest, 1e-12) / 4.0;
    const double power = std::pow(10.0, std::floor(std::log10(raw)));
    const double mantissa = raw / power;
    step = power * (mantissa <= 1.0   ? 1.0
                    : mantissa <= 2.0 ? 2.0
                    : mantissa <= 2.5 ? 2.5
                    : mantissa <= 5.0 ? 5.0
                                      : 10.0);
    top = step * std::ceil(std::max(largest, 1e-12) / step);
  }
  double step = 1.0;
  double top = 1.0;
};

std::string Tick(double value, double step) {
  const int digits =
      std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));
  std::string text = fmt::format("{:.{}f}", value, digits + 1);
  while (text.find('.') != std::string::npos &&
         (text.back() == '0' || text.back() == '.')) {
    const bool dot = text.back() == '.';
    text.pop_back();
    if (dot) {
      break;
    }
  }
  return text;
}

// The plot area of a chart and the positions in it.
class Area {
 public:
  Area(int width, int height, int strip, int count, double largest)
      : width_(width),
        height_(height),
        strip_(strip),
        count_(count),
        scale_(largest) {}

  [[nodiscard]] double X(int number) const {
    return kLeft + (Right() - kLeft) * (number - 0.5) / std::max(count_, 1);
  }
  [[nodiscard]] double Y(double value) const {
    return Bottom() - (Bottom() - kTop) * value / scale_.top;
  }
  [[nodiscard]] double Right() const { return width_ - 12.0; }
  [[nodiscard]] double Bottom() const { return height_ - 40.0 - strip_; }
  [[nodiscard]] double StripY() const { return Bottom() + 0.5 * strip_; }
  [[nodiscard]] double SlotWidth() const {
    return (Right() - kLeft) / std::max(count_, 1);
  }

  [[nodiscard]] std::string Begin(const std::string& label) const {
    return fmt::format(
        "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">", width_,
        height_, EscapeHtml(label));
  }

  // Grid, ticks and the names of both axes.
  [[nodiscard]] std::string Axes(const std::string& y_name) const {
    std::string svg = fmt::format(
        "<text class=\"title\" x=\"{}\" y=\"12\">{}</text>", 0, y_name);
    const int steps = static_cast<int>(std::lround(scale_.top / scale_.step));
    for (int i = 0; i <= steps; ++i) {
      const double v = i * scale_.step;
      svg += fmt::format(
          "<line class=\"{}\" x1=\"{}\" x2=\"{:.1f}\" y1=\"{:.1f}\" "
          "y2=\"{:.1f}\"/><text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}"
          "</text>",
          v == 0.0 ? "axis" : "grid", kLeft, Right(), Y(v), Y(v), kLeft - 7.0,
          Y(v) + 4.0, Tick(v, scale_.step));
    }
    const int every = TickDistance();
    for (int number = 1; number <= count_; ++number) {
      if (number == 1 || number % every == 0) {
        svg += fmt::format(
            "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>",
            X(number), height_ - 22.0, number);
      }
    }
    return svg + fmt::format(
                     "<text class=\"title\" x=\"{:.1f}\" y=\"{}\" "
                     "text-anchor=\"middle\">trial</text>",
                     0.5 * (kLeft + Right()), height_ - 4);
  }

  static constexpr double kLeft = 52.0;
  static constexpr double kTop = 28.0;

 private:
  [[nodiscard]] int TickDistance() const {
    int every = 1;
    for (const int distance : {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}) {
      every = distance;
      if (SlotWidth() * distance >= 28.0) {
        break;
      }
    }
    return every;
  }

  int width_;
  int height_;
  int strip_;
  int count_;
  Scale scale_;
};

std::string WithTitle(const std::string& title, const std::string& shape) {
  return fmt::format("<g><title>{}</title>{}</g>", EscapeHtml(title), shape);
}

std::string TitleOf(const Trial& trial, std::string_view unit) {
  return fmt::format(
      "Trial {}: {}, {}{}", trial.number,
      OutcomeWords(trial.measurement.outcome),
      trial.HasThroughput()
          ? fmt::format("{} {}, ", PageNumber(trial.throughput.steps_per_s),
                        unit)
          : "",
      CandidateLabel(trial));
}

// The interval that was predicted for a trial, as a bar behind its mark.
std::string Prediction(const PageRun& run, std::size_t i, const Area& area) {
  const double mean = run.predicted_steps_per_s[i];
  const double spread = 1.96 * run.predicted_stddev[i];
  if (std::isnan(mean) || std::isnan(spread)) {
    return "";
  }
  const double x = area.X(static_cast<int>(i) + 1);
  return WithTitle(
      fmt::format("Predicted for trial {}: {} [{}, {}] {}", i + 1,
                  PageNumber(mean), PageNumber(std::max(mean - spread, 0.0)),
                  PageNumber(mean + spread), UnitOf(run)),
      fmt::format("<line class=\"pred\" x1=\"{:.1f}\" x2=\"{:.1f}\" "
                  "y1=\"{:.1f}\" y2=\"{:.1f}\"/>",
                  x, x, std::max(area.Y(mean + spread), Area::kTop),
                  area.Y(std::max(mean - spread, 0.0))));
}

// The incumbent after each trial, from the first that completed.
std::string IncumbentLine(const PageRun& run, const Area& area) {
  std::string path;
  double last = trials::kUnknown;
  for (std::size_t i = 0; i < run.trials.size(); ++i) {
    const double now = run.trials[i].incumbent_steps_per_s;
    if (std::isnan(now)) {
      continue;
    }
    const double x = area.X(static_cast<int>(i) + 1);
    if (path.empty()) {
      path = fmt::format("M{:.1f} {:.1f}", x, area.Y(now));
    } else if (now != last) {
      path += fmt::format("H{:.1f}V{:.1f}", x, area.Y(now));
    }
    last = now;
  }
  return path.empty() ? ""
                      : fmt::format("<path class=\"inc\" d=\"{}H{:.1f}\"/>",
                                    path, area.Right());
}

}  // namespace

std::string OutcomeMark(const Trial& trial, double x, double y) {
  switch (trial.measurement.outcome) {
    case Outcome::kCompleted:
      return trial.chosen_by == trials::ChosenBy::kImported
                 ? fmt::format(
                       "<rect class=\"m-completed\" x=\"{:.1f}\" "
                       "y=\"{:.1f}\" width=\"9\" height=\"9\"/>",
                       x - 4.5, y - 4.5)
                 : fmt::format(
                       "<circle class=\"m-completed\" cx=\"{:.1f}\" "
                       "cy=\"{:.1f}\" r=\"5\"/>",
                       x, y);
    case Outcome::kTerminatedEarly:
      return fmt::format(
          "<circle class=\"m-early\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4.5\"/>",
          x, y);
    case Outcome::kOutOfMemory:
      return fmt::format(
          "<path class=\"m-oom\" d=\"M{:.1f} {:.1f}l9 9m0 -9l-9 9\"/>", x - 4.5,
          y - 4.5);
    case Outcome::kTimedOut:
      return fmt::format(
          "<path class=\"m-timed\" d=\"M{:.1f} {:.1f}l5.5 5.5l-5.5 5.5l-5.5 "
          "-5.5z\"/>",
          x, y - 5.5);
    case Outcome::kFailed:
      break;
  }
  return fmt::format(
      "<path class=\"m-failed\" d=\"M{:.1f} {:.1f}l5.5 9.5h-11z\"/>", x,
      y - 5.5);
}

std::string ThroughputChart(const PageRun& run, int width) {
  double largest = 0.0;
  for (std::size_t i = 0; i < run.trials.size(); ++i) {
    const Trial& trial = run.trials[i];
    if (trial.HasThroughput()) {
      largest = std::max(largest, trial.throughput.steps_per_s);
    }
    if (!std::isnan(run.predicted_steps_per_s[i])) {
      largest = std::max(largest, run.predicted_steps_per_s[i]);
    }
  }
  constexpr int kStrip = 34;
  const Area area(width, width > 500 ? 340 : 300, kStrip,
                  static_cast<int>(run.trials.size()), 1.05 * largest);
  std::string svg =
      area.Begin(
          "Throughput of each trial and of the best configuration so "
          "far") +
      area.Axes(UnitOf(run));
  if (largest == 0.0) {
    svg += fmt::format(
        "<text class=\"title\" x=\"{:.1f}\" y=\"{:.1f}\" "
        "text-anchor=\"middle\">no configuration ran</text>",
        0.5 * (Area::kLeft + area.Right()), 0.5 * (Area::kTop + area.Bottom()));
  }
  for (std::size_t i = 0; i < run.trials.size(); ++i) {
    svg += Prediction(run, i, area);
  }
  svg += IncumbentLine(run, area);
  for (const Trial& trial : run.trials) {
    const double x = area.X(trial.number);
    const double y = trial.HasThroughput()
                         ? area.Y(trial.throughput.steps_per_s)
                         : area.StripY();
    svg += WithTitle(TitleOf(trial, UnitOf(run)), OutcomeMark(trial, x, y));
  }
  if (run.best >= 0) {
    svg += fmt::format(
        "<circle class=\"ring\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"9\"/>",
        area.X(run.Best().number), area.Y(run.Best().throughput.steps_per_s));
  }
  return svg + "</svg>";
}

std::string MemoryChart(const PageRun& run, int width) {
  const double capacity =
      run.problem->info.memory_capacity_bytes.value_or(0.0) / common::kGiga;
  double largest = capacity;
  bool any = false;
  for (const Trial& trial : run.trials) {
    if (trial.measurement.peak_memory_bytes) {
      any = true;
      largest = std::max(largest,
                         *trial.measurement.peak_memory_bytes / common::kGiga);
    }
  }
  if (!any) {
    return "";
  }
  constexpr int kStrip = 26;
  const Area area(width, width > 500 ? 260 : 240, kStrip,
                  static_cast<int>(run.trials.size()), 1.05 * largest);
  std::string svg = area.Begin("Peak memory of each trial") + area.Axes("GB");
  const double bar = std::min(0.7 * area.SlotWidth(), 26.0);
  for (std::size_t i = 0; i < run.trials.size(); ++i) {
    const Trial& trial = run.trials[i];
    const double x = area.X(trial.number);
    if (trial.measurement.outcome == Outcome::kOutOfMemory) {
      svg += WithTitle(TitleOf(trial, UnitOf(run)),
                       OutcomeMark(trial, x, area.StripY()));
    }
    if (!trial.measurement.peak_memory_bytes) {
      continue;
    }
    const double y =
        area.Y(*trial.measurement.peak_memory_bytes / common::kGiga);
    svg += WithTitle(
        fmt::format(
            "Trial {}: {} GB", trial.number,
            PageNumber(*trial.measurement.peak_memory_bytes / common::kGiga)),
        fmt::format("<rect class=\"bar{}\" x=\"{:.1f}\" y=\"{:.1f}\" "
                    "width=\"{:.1f}\" height=\"{:.1f}\"/>",
                    static_cast<int>(i) == run.best ? " best" : "",
                    x - 0.5 * bar, y, bar, area.Bottom() - y));
  }
  if (capacity > 0.0) {
    svg += fmt::format(
        "<line class=\"cap\" x1=\"{}\" x2=\"{:.1f}\" y1=\"{:.1f}\" "
        "y2=\"{:.1f}\"/><text class=\"title\" x=\"{:.1f}\" y=\"{:.1f}\" "
        "text-anchor=\"end\">memory of a GPU: {} GB</text>",
        Area::kLeft, area.Right(), area.Y(capacity), area.Y(capacity),
        area.Right(), area.Y(capacity) - 5.0, PageNumber(capacity, 3));
  }
  return svg + "</svg>";
}

}  // namespace plots
