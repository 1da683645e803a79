#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string_view>

#include <fmt/format.h>

#include "common/quantiles.h"
#include "common/ranges.h"
#include "common/units.h"
#include "studies/calibration/calibration.h"

namespace studies {
namespace {

using common::kNan;
constexpr std::size_t kPointsDrawn = 150;  // held-out ones of a panel

// A configuration that ran: measurement and prediction.
struct Point {
  bool seen = false;
  double measured = 0.0;
  double predicted = 0.0;
  double stddev = 0.0;
};

// Every seen point and an even choice of the others, with the best one, by
// measurement.
std::vector<Point> Drawn(std::vector<Point> points) {
  std::ranges::sort(points, [](const Point& a, const Point& b) {
    return a.measured > b.measured;
  });
  const auto held_out = static_cast<std::size_t>(std::ranges::count_if(
      points, [](const Point& point) { return !point.seen; }));
  const std::size_t stride = 1 + held_out / kPointsDrawn;
  std::size_t index = 0;
  std::erase_if(points, [&](const Point& point) {
    return !point.seen && index++ % stride != 0;
  });
  std::ranges::reverse(points);
  return points;
}

// The variance of the reported throughput, without the noise of a measurement's
// own steps.
double ReportedVariance(const Models& models, int candidate) {
  return models.reported.location.size() > 0
             ? models.reported.kVariance *
                   models.reported.scale_squared[candidate]
             : models.throughput.variance[candidate];
}

// Throughputs (steps/s), or peaks of memory in percent of the capacity, without
// their deviations. Configurations that failed have no measurement.
std::vector<Point> PointsOf(const Fitted& fitted, bool memory) {
  std::vector<Point> points;
  for (const trials::Trial& entry : fitted.all.trials()) {
    const auto& peak = entry.measurement.peak_memory_bytes;
    if (!entry.HasThroughput() || (memory && !peak)) {
      continue;
    }
    const int i = entry.candidate;
    Point& point = points.emplace_back(Point{.seen = fitted.seen[i] != 0});
    if (memory) {
      point.measured = 100.0 * *peak / fitted.memory_capacity_bytes;
      point.predicted = 100.0 * fitted.models.memory.mean[i];
    } else {
      point.measured = entry.throughput.steps_per_s;
      point.predicted = fitted.models.throughput.mean[i];
      point.stddev =
          std::sqrt(std::fmax(ReportedVariance(fitted.models, i), 0.0));
    }
  }
  return points;
}

plots::Series PointSeries(const std::vector<Point>& points, bool seen) {
  plots::Band band;
  for (const Point& point : points) {
    band.x.push_back(point.measured);
    band.y.push_back(point.seen == seen
                         ? common::Quartiles{point.predicted - point.stddev,
                                             point.predicted,
                                             point.predicted + point.stddev}
                         : common::Quartiles{});
  }
  return {.name = seen ? "tried" : "held_out",
          .label = seen ? "tried" : "not tried",
          .style = {.color = seen ? "#000000" : "#7FA6C4"},
          .band = std::move(band),
          .mark = plots::Mark::kPoints};
}

plots::Panel PointPanel(const Fitted& fitted, const std::vector<Point>& points,
                        const std::string& unit) {
  plots::Panel panel{.title = fmt::format("{}, {} trials", fitted.variant.label,
                                          fitted.trials),
                     .x_column = "measured",
                     .x_label = fmt::format("measured ({})", unit),
                     .y_label = fmt::format("predicted ({})", unit),
                     .x_min = 0.9 * points.front().measured,
                     .x_max = 1.05 * points.back().measured,
                     .slopes = {1.0}};
  panel.series = {PointSeries(points, false), PointSeries(points, true)};
  return panel;
}

// "ultrascale-1b-8" of "ultrascale/ultrascale-1b-8".
std::string FileName(const std::string& problem) {
  return problem.substr(problem.rfind('/') + 1);
}

}  // namespace

void Collection::Add(const Fitted& fitted) {
  const Scores scores = Score(fitted.models, fitted.all, fitted.seen);
  plots::Row row = {{"problem", fitted.problem},
                    {"repeat", fitted.repeat},
                    {"trials", fitted.trials},
                    {"surrogate", fitted.variant.name}};
  for (std::size_t k = 0; k < scores.size(); ++k) {
    row.emplace_back(kScoreNames[k], scores[k]);
  }
  scores_.Add(std::move(row));
  by_surrogate_[{fitted.variant.name, fitted.trials}].push_back(scores);
  if (fitted.repeat == 1) {
    AddPredictions(fitted);
    AddLengthScales(fitted);
  }
}

std::vector<Output> Collection::Take() const {
  return {TakePredictions(), TakeLengthScales(), TakeScores()};
}

Output Collection::TakeScores() const {
  Output output{.name = "scores", .data = scores_};
  for (const auto& [key, scores] : by_surrogate_) {
    plots::Row row = {{"surrogate", key.first}, {"n", key.second}};
    for (std::size_t k = 0; k < kScoreNames.size(); ++k) {
      double sum = 0.0;
      double defined = 0.0;
      for (const Scores& one : scores) {
        sum += std::isnan(one[k]) ? 0.0 : one[k];
        defined += std::isnan(one[k]) ? 0.0 : 1.0;
      }
      row.emplace_back(kScoreNames[k], plots::Fixed(sum / defined, 2));
    }
    output.table.Add(std::move(row));
  }
  output.conclusion =
      "Means over problems and repeats, of configurations that were not tried. "
      "coverage of 95% intervals; rank: Spearman's correlation; precision and "
      "recall of \"out of memory\"; best: throughput of the configuration that "
      "is predicted to be the best of all over that of the best one, 0 where "
      "it does not run.";
  return output;
}

void Collection::AddPredictions(const Fitted& fitted) {
  if (!common::Contains(problems_, fitted.problem)) {
    problems_.push_back(fitted.problem);
  }
  const Key key{fitted.variant.name, fitted.trials};
  const std::vector<Point> points = Drawn(PointsOf(fitted, false));
  throughput_[fitted.problem][key] = PointPanel(fitted, points, "steps/s");
  if (fitted.models.memory.mean.size() == 0) {
    return;
  }
  const Confusion c = ConfusionOf(fitted.models, fitted.all, fitted.seen);
  if (const std::vector<Point> memory = Drawn(PointsOf(fitted, true));
      !memory.empty()) {
    plots::Panel panel = PointPanel(fitted, memory, "% of capacity");
    panel.title = fmt::format("{}: finds {} of {} failures, {} false",
                              fitted.variant.label, c.fails_predicted_fails,
                              c.fails_predicted_fails + c.fails_predicted_runs,
                              c.runs_predicted_fails);
    memory_[fitted.problem][key] = std::move(panel);
  }
  confusion_.Add({{"problem", fitted.problem},
                  {"surrogate", fitted.variant.name},
                  {"n", fitted.trials},
                  {"runs; predicted to run", c.runs_predicted_runs},
                  {"runs; predicted to fail", c.runs_predicted_fails},
                  {"fails; predicted to run", c.fails_predicted_runs},
                  {"fails; predicted to fail", c.fails_predicted_fails}});
}

Output Collection::TakePredictions() const {
  Output output{.name = "out_of_memory", .table = confusion_};
  output.conclusion =
      "Configurations that were not tried: out of memory or not, by the "
      "prediction of the memory model (Fig. 23).";
  const auto add = [&](const std::string& name, const std::string& problem,
                       const std::string& caption, const Panels& panels,
                       const std::vector<Key>& chosen, std::size_t columns) {
    plots::Figure figure{.name = name + "-" + FileName(problem),
                         .title = FileName(problem),
                         .caption = caption,
                         .columns = columns,
                         .square = true};
    for (const auto& key : chosen) {
      if (const auto found = panels.find(key); found != panels.end()) {
        figure.panels.push_back(found->second);
        figure.panels.back().name = fmt::format("{}", figure.panels.size());
      }
    }
    if (!figure.panels.empty()) {
      output.figures.push_back(std::move(figure));
    }
  };
  for (const std::string& problem : problems_) {
    add("predicted", problem,
        "Throughput by surrogates fitted to the trials of a search of their "
        "methods, the first repeat; bars: standard deviation of the "
        "prediction; dotted: predicted = measured.",
        throughput_.at(problem),
        {{"as printed", 10},
         {"as printed", 20},
         {"cost model", 20},
         {"vanilla BO", 20},
         {"ours", 10},
         {"ours", 20},
         {"vanilla BO", 10},
         {"xgboost", 10}},
        4);
    if (const auto memory = memory_.find(problem); memory != memory_.end()) {
      add("memory", problem,
          "Peak memory after 20 trials of a search, the first repeat; "
          "failures: configurations that run out of memory and were not "
          "tried.",
          memory->second,
          {{"as printed", 20}, {"ours", 20}, {"vanilla BO", 20}}, 3);
    }
  }
  return output;
}

void Collection::AddLengthScales(const Fitted& fitted) {
  constexpr int kTableTrials = 20;
  constexpr std::string_view kPrefix = "length_scale[";
  const std::string& variant = fitted.variant.name;
  if (fitted.trials != kTableTrials ||
      (variant != "ours" && variant != "as printed")) {
    return;
  }
  const std::string column = fitted.problem + ", " + fitted.variant.label;
  // The scenarios of an experiment with an axis are in the CSV alone.
  const bool shown = fitted.problem.find('/') == std::string::npos;
  if (shown) {
    columns_.push_back(column);
  }
  for (const auto& parameter : fitted.models.learned.parameters) {
    if (!parameter.name.starts_with(kPrefix)) {
      continue;
    }
    const std::string field = parameter.name.substr(
        kPrefix.size(), parameter.name.size() - kPrefix.size() - 1);
    const double log = std::log(parameter.value);
    length_scales_.Add({{"problem", fitted.problem},
                        {"surrogate", variant},
                        {"field", field},
                        {"log_length_scale", log}});
    if (shown && !common::Contains(fields_, field)) {
      fields_.push_back(field);
    }
    logs_[{field, column}] = log;
  }
}

Output Collection::TakeLengthScales() const {
  Output output{.name = "table5", .data = length_scales_};
  for (const std::string& field : fields_) {
    plots::Row row = {{"field", field}};
    for (const std::string& column : columns_) {
      const auto found = logs_.find({field, column});
      row.emplace_back(
          column, plots::Fixed(found == logs_.end() ? kNan : found->second, 2));
    }
    output.table.Add(std::move(row));
  }
  output.conclusion =
      "Logarithms of the length scales of the throughput model after 20 trials "
      "of a search, fields scaled to [0, 1].";
  return output;
}

}  // namespace studies
