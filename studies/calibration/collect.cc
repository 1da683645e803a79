#include "studies/calibration/collect.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "common/units.h"
#include "plots/table.h"
#include "surrogates/gp/likelihood.h"

namespace studies {
namespace {

using common::kNan;
constexpr std::size_t kPointsDrawn = 150;  // held-out ones of a panel
constexpr double kClearly = 0.1;  // shorter, of a logarithm of a length scale

// A configuration that ran: measurement and prediction.
struct Point {
  int candidate = 0;
  bool seen = false;
  double measured = 0.0;
  double predicted = 0.0;
  double stddev = 0.0;
};

// Every seen point and an even choice of the others, by measurement.
std::vector<Point> Drawn(std::vector<Point> points) {
  std::sort(points.begin(), points.end(), [](const Point& a, const Point& b) {
    return a.measured < b.measured;
  });
  const auto held_out = static_cast<std::size_t>(
      std::count_if(points.begin(), points.end(),
                    [](const Point& point) { return !point.seen; }));
  const std::size_t stride = 1 + held_out / kPointsDrawn;
  std::size_t index = 0;
  std::erase_if(points, [&](const Point& point) {
    return !point.seen && index++ % stride != 0;
  });
  return points;
}

// Of the reported throughput, without the noise of a measurement's own steps.
double ReportedVariance(const Models& models, int candidate) {
  return models.reported.location.size() > 0
             ? models.reported.kVariance *
                   models.reported.scale_squared[candidate]
             : models.throughput.variance[candidate];
}

std::vector<Point> ThroughputPoints(const Fitted& fitted) {
  std::vector<Point> points;
  for (const trials::Trial& entry : fitted.all.trials()) {
    if (entry.HasThroughput()) {
      points.push_back(
          {.candidate = entry.candidate,
           .seen = fitted.seen[entry.candidate] != 0,
           .measured = entry.throughput.steps_per_s,
           .predicted = fitted.models.throughput.mean[entry.candidate],
           .stddev = std::sqrt(std::fmax(
               ReportedVariance(fitted.models, entry.candidate), 0.0))});
    }
  }
  return points;
}

// In percent of the capacity; configurations that ran out of memory have no
// measurement.
std::vector<Point> MemoryPoints(const Fitted& fitted, double capacity_bytes) {
  std::vector<Point> points;
  for (const trials::Trial& entry : fitted.all.trials()) {
    if (entry.HasThroughput() && entry.measurement.peak_memory_bytes) {
      points.push_back(
          {.candidate = entry.candidate,
           .seen = fitted.seen[entry.candidate] != 0,
           .measured =
               100.0 * *entry.measurement.peak_memory_bytes / capacity_bytes,
           .predicted = 100.0 * fitted.models.memory.mean[entry.candidate]});
    }
  }
  return points;
}

plots::Series PointSeries(const std::vector<Point>& points, bool seen) {
  std::vector<double> x;
  std::vector<double> y;
  std::vector<double> low;
  std::vector<double> high;
  for (const Point& point : points) {
    const bool here = point.seen == seen;
    x.push_back(point.measured);
    y.push_back(here ? point.predicted : kNan);
    low.push_back(here ? point.predicted - point.stddev : kNan);
    high.push_back(here ? point.predicted + point.stddev : kNan);
  }
  return {.name = seen ? "tried" : "held_out",
          .label = seen ? "tried" : "not tried",
          .style = plots::StyleOf(0, seen),
          .band = LineBand(x, y, low, high),
          .mark = plots::Mark::kPoints};
}

plots::Panel PointPanel(const Fitted& fitted, const std::vector<Point>& all,
                        const std::string& unit) {
  const std::vector<Point> points = Drawn(all);
  plots::Panel panel{
      .x_column = "measured",
      .x_label = fmt::format("measured ({}, n={})", fitted.variant.label,
                             fitted.trials),
      .y_label = fmt::format("predicted {}", unit),
      .x_min = 0.9 * points.front().measured,
      .x_max = 1.05 * points.back().measured,
      .slopes = {1.0}};
  panel.series = {PointSeries(points, false), PointSeries(points, true)};
  return panel;
}

// A figure of those panels that there are.
template <typename Panels>
std::optional<plots::Figure> FigureOf(
    const std::string& name, const std::string& title,
    const std::string& caption, const Panels& panels,
    const std::vector<std::pair<std::string, int>>& chosen) {
  plots::Figure figure{.name = name, .title = title, .caption = caption};
  for (const auto& key : chosen) {
    const auto found = panels.find(key);
    if (found != panels.end()) {
      figure.panels.push_back(found->second);
      figure.panels.back().name = fmt::format("{}", figure.panels.size());
    }
  }
  return figure.panels.empty() ? std::nullopt : std::optional(figure);
}

// "ultrascale-1b-8" of "ultrascale/ultrascale-1b-8".
std::string FileName(const std::string& problem) {
  return problem.substr(problem.rfind('/') + 1);
}

// Of the belief about length scales, as a density in the length scale.
double LogMode(int dimensions) {
  const surrogates::LogNormalPrior prior =
      surrogates::KernelPriors::DimensionScaled(dimensions, 1.0).length_scale;
  return prior.log_center - prior.log_stddev * prior.log_stddev;
}

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

void ScoreTable::Add(const Fitted& fitted) {
  const Scores scores = Score(fitted.models, fitted.all, fitted.seen);
  plots::Row row = {{"problem", fitted.problem},
                    {"repeat", fitted.repeat},
                    {"trials", fitted.trials},
                    {"surrogate", fitted.variant.name}};
  Sum& sum = sums_[{fitted.variant.name, fitted.trials}];
  for (std::size_t k = 0; k < scores.size(); ++k) {
    row.emplace_back(kScoreNames[k], scores[k]);
    if (!std::isnan(scores[k])) {
      sum.total[k] += scores[k];
      ++sum.count[k];
    }
  }
  scores_.Add(std::move(row));
}

Output ScoreTable::Take() const {
  Output output{.name = "scores", .data = scores_};
  for (const Variant& variant : Variants()) {
    for (const auto& [key, sum] : sums_) {
      if (key.first != variant.name) {
        continue;
      }
      plots::Row row = {{"surrogate", key.first}, {"n", key.second}};
      for (std::size_t k = 0; k < kScoreNames.size(); ++k) {
        row.emplace_back(kScoreNames[k],
                         sum.count[k] == 0
                             ? plots::Figures("-")
                             : plots::Fixed(sum.total[k] / sum.count[k], 2));
      }
      output.table.Add(std::move(row));
    }
  }
  output.conclusion =
      "Means over problems and repeats. nlpd: median over held-out "
      "configurations of -log p(measured) in units of the problem's spread; "
      "coverage of 95% intervals; rank: Spearman's correlation; precision and "
      "recall of \"out of memory\"; pick: throughput of the next pick over the "
      "best of all, 0 where it does not run; width: mean length of the "
      "intervals over the spread.";
  return output;
}

void PredictionFigures::Add(const Fitted& fitted) {
  const bool is_shown = fitted.trials == 10 || fitted.trials == 20;
  if (fitted.repeat != 1 || !is_shown) {
    return;
  }
  if (!Contains(problems_, fitted.problem)) {
    problems_.push_back(fitted.problem);
  }
  const std::pair<std::string, int> key{fitted.variant.name, fitted.trials};
  const std::vector<Point> points = ThroughputPoints(fitted);
  throughput_[fitted.problem][key] = PointPanel(fitted, points, "(steps/s)");
  for (const Point& point : Drawn(points)) {
    drawn_.Add({{"problem", fitted.problem},
                {"trials", fitted.trials},
                {"surrogate", fitted.variant.name},
                {"candidate", point.candidate},
                {"tried", point.seen ? 1 : 0},
                {"measured_steps_per_s", point.measured},
                {"predicted_steps_per_s", point.predicted},
                {"predicted_stddev", point.stddev}});
  }
  if (fitted.models.memory.mean.size() == 0) {
    return;
  }
  const std::vector<Point> memory =
      MemoryPoints(fitted, fitted.memory_capacity_bytes);
  if (!memory.empty()) {
    memory_[fitted.problem][key] =
        PointPanel(fitted, memory, "(% of capacity)");
  }
  const Confusion c = ConfusionOf(fitted.models, fitted.all, fitted.seen);
  confusion_.Add({{"problem", fitted.problem},
                  {"surrogate", fitted.variant.name},
                  {"n", fitted.trials},
                  {"runs; predicted to run", c.runs_predicted_runs},
                  {"runs; predicted to fail", c.runs_predicted_fails},
                  {"fails; predicted to run", c.fails_predicted_runs},
                  {"fails; predicted to fail", c.fails_predicted_fails}});
}

Output PredictionFigures::Take() const {
  Output output{.name = "predictions", .table = confusion_, .data = drawn_};
  output.conclusion =
      "Configurations that were not tried: out of memory or not, by the "
      "prediction of the memory model (Fig. 23).";
  const std::string caption =
      "Random trials, the first repeat; bars: standard deviation of the "
      "prediction; dashed: predicted = measured.";
  for (const std::string& problem : problems_) {
    const auto add = [&](const std::string& name, const std::string& what,
                         const auto& panels,
                         const std::vector<std::pair<std::string, int>>& keys) {
      if (auto figure = FigureOf(name + "-" + FileName(problem),
                                 FileName(problem) + ": " + what, caption,
                                 panels, keys)) {
        output.figures.push_back(*std::move(figure));
      }
    };
    add("predicted", "throughput", throughput_.at(problem),
        {{"ours", 10},
         {"ours", 20},
         {"prior mean alone", 20},
         {"no prior mean", 20}});
    add("predicted-others", "throughput", throughput_.at(problem),
        {{"no prior mean", 10},
         {"vanilla BO", 20},
         {"xgboost", 20},
         {"as printed", 20}});
    const auto memory = memory_.find(problem);
    if (memory != memory_.end()) {
      add("memory", "peak memory", memory->second,
          {{"ours", 20}, {"no prior mean", 20}});
    }
  }
  return output;
}

void LengthScaleTable::Add(const Fitted& fitted) {
  constexpr int kTrials = 20;
  constexpr std::string_view kPrefix = "length_scale[";
  if (fitted.repeat != 1 || fitted.trials != kTrials ||
      fitted.variant.name != "ours") {
    return;
  }
  problems_.push_back(fitted.problem);
  for (const auto& parameter : fitted.models.learned.parameters) {
    if (!parameter.name.starts_with(kPrefix)) {
      continue;
    }
    const std::string field = parameter.name.substr(
        kPrefix.size(), parameter.name.size() - kPrefix.size() - 1);
    if (!Contains(fields_, field)) {
      fields_.push_back(field);
    }
    logs_[{fitted.problem, field}] = std::log(parameter.value);
  }
}

Output LengthScaleTable::Take() const {
  Output output{.name = "table5"};
  // Highlights those that the data made clearly shorter than the prior's mode.
  std::map<std::string, double> short_up_to;
  for (const std::string& problem : problems_) {
    int dimensions = 0;
    for (const auto& [key, value] : logs_) {
      if (key.first == problem) {
        ++dimensions;
        output.data.Add({{"problem", problem},
                         {"field", key.second},
                         {"log_length_scale", value}});
      }
    }
    short_up_to[problem] = LogMode(dimensions) - kClearly;
  }
  // The scenarios of an experiment with an axis are in the CSV alone.
  std::vector<std::string> shown = problems_;
  std::erase_if(shown, [](const std::string& problem) {
    return problem.find('/') != std::string::npos;
  });
  if (shown.empty()) {
    shown = problems_;
  }
  for (const std::string& field : fields_) {
    const bool varies =
        std::any_of(shown.begin(), shown.end(), [&](const auto& problem) {
          return logs_.contains({problem, field});
        });
    if (!varies) {
      continue;
    }
    plots::Row row = {{"field", field}};
    for (const std::string& problem : shown) {
      const auto found = logs_.find({problem, field});
      plots::Cell cell =
          plots::Fixed(found == logs_.end() ? kNan : found->second, 2);
      if (found != logs_.end() && found->second <= short_up_to[problem]) {
        cell.text = "**" + cell.text + "**";
      }
      row.emplace_back(problem, cell);
    }
    output.table.Add(std::move(row));
  }
  output.conclusion = fmt::format(
      "Logarithms of the length scales of the throughput model after 20 random "
      "trials, fields scaled to [0, 1]. {:.2f} is the prior's mode for {} "
      "fields: there the data have no information. In bold: clearly shorter.",
      LogMode(static_cast<int>(output.table.rows.size())),
      output.table.rows.size());
  return output;
}

}  // namespace studies
