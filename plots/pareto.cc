#include "plots/pareto.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "common/text.h"
#include "plots/table.h"

namespace plots {
namespace {

CostPoint PointOf(const trials::ProblemInfo& problem, double steps_per_s,
                  int gpus, std::string config) {
  const double step_time_s = 1.0 / steps_per_s;
  return {.cost = {step_time_s, problem.valuation().CostOf(step_time_s, gpus)},
          .gpus = gpus,
          .config = std::move(config)};
}

common::Quartiles Point(double y) { return {.q1 = y, .median = y, .q3 = y}; }

// The step times of all points, ascending.
using Times = std::vector<double>;

Times TimesOf(const std::vector<std::vector<CostPoint>>& lists) {
  std::multiset<double> times;
  for (const std::vector<CostPoint>& points : lists) {
    for (const CostPoint& point : points) {
      times.insert(point.cost.step_time_s);
    }
  }
  return {times.begin(), times.end()};
}

// One point per time; those of equal times take one of these each.
Band Scattered(const Times& times, const std::vector<CostPoint>& points) {
  Band band{.x = times,
            .y = std::vector(times.size(), Point(trials::kUnknown))};
  for (const CostPoint& point : points) {
    auto at = static_cast<std::size_t>(
        std::lower_bound(times.begin(), times.end(), point.cost.step_time_s) -
        times.begin());
    while (!std::isnan(band.y[at].median)) {
      ++at;
    }
    band.y[at] = Point(point.cost.cost);
  }
  return band;
}

// The least cost of a step that takes at most a time.
Band StaircaseOf(const Times& times, const std::vector<CostPoint>& front) {
  Band band{.x = times};
  for (const double time : times) {
    double cost = trials::kUnknown;
    for (const CostPoint& point : front) {
      if (point.cost.step_time_s <= time) {
        cost = point.cost.cost;
      }
    }
    band.y.push_back(Point(cost));
  }
  return band;
}

}  // namespace

bool HasParetoFront(const trials::ProblemInfo& problem) {
  return problem.trade_off && problem.trade_off->HasFront();
}

std::vector<CostPoint> TrialCosts(const ProblemRecords& problem) {
  std::vector<CostPoint> points;
  const trials::Valuation valuation = problem.info.valuation();
  for (const MethodRecords& method : problem.methods) {
    for (const Run& run : method.runs) {
      for (const trials::Trial& trial : run.trials) {
        if (!trial.HasThroughput()) {
          continue;
        }
        // The records in memory have values (see ToValues).
        CostPoint& point = points.emplace_back(PointOf(
            problem.info,
            trial.throughput.steps_per_s / valuation.Factor(trial.config),
            trials::GpusOf(trial.config), CandidateLabel(trial)));
        point.method = method.label;
        point.completed =
            trial.measurement.outcome == trials::Outcome::kCompleted;
      }
    }
  }
  return points;
}

std::vector<CostPoint> FrontOfTrials(const std::vector<CostPoint>& trials) {
  std::vector<CostPoint> completed;
  std::vector<trials::TimeAndCost> costs;
  for (const CostPoint& point : trials) {
    if (point.completed) {
      completed.push_back(point);
      costs.push_back(point.cost);
    }
  }
  std::vector<CostPoint> front;
  for (const std::size_t i : trials::ParetoFront(costs)) {
    front.push_back(completed[i]);
  }
  return front;
}

std::vector<CostPoint> FrontOfAll(const trials::ProblemInfo& problem) {
  std::vector<CostPoint> front;
  for (const trials::ParetoPoint& point : problem.trade_off->pareto) {
    front.push_back(
        PointOf(problem, point.steps_per_s, point.gpus, point.config));
  }
  return front;
}

Panel ParetoPanel(const ProblemRecords& problem) {
  constexpr double kRoom = 1.6;  // beyond the fronts
  const std::vector<CostPoint> tried = TrialCosts(problem);
  const std::vector<CostPoint> front = FrontOfTrials(tried);
  const std::vector<CostPoint> all = FrontOfAll(problem.info);
  const Times times = TimesOf({tried, all});
  Panel panel{.name = "pareto",
              .x_column = "step_time_s",
              .x_label = "time of a step (s)",
              .y_label = std::string(trials::kCost.quantity),
              .y_min = 0.0};
  double most = 0.0;
  for (const auto* points : {&front, &all}) {
    for (const CostPoint& point : *points) {
      panel.x_max = std::max(panel.x_max, kRoom * point.cost.step_time_s);
      most = std::max(most, kRoom * point.cost.cost);
    }
  }
  panel.y_max = most;
  constexpr int kDot = 7;  // of gnuplot
  constexpr int kCircle = 6;
  const LineStyle gray{.color = "#999999", .symbol = kDot};
  LineStyle found = StyleOf(0, true);
  found.symbol = kDot;
  LineStyle exhaustive = ThinStyle(0, true);
  exhaustive.symbol = kCircle;
  panel.series.push_back({.name = "trials",
                          .label = "trials",
                          .style = gray,
                          .band = Scattered(times, tried),
                          .mark = Mark::kScatter});
  if (!all.empty()) {
    panel.series.push_back({.name = "front_of_all",
                            .label = "front of all configurations, noise-free",
                            .style = exhaustive,
                            .band = StaircaseOf(times, all),
                            .mark = Mark::kStairs});
    panel.series.push_back({.name = "on_front_of_all",
                            .style = exhaustive,
                            .band = Scattered(times, all),
                            .mark = Mark::kScatter});
  }
  panel.series.push_back({.name = "front_of_trials",
                          .label = "Pareto front of the trials",
                          .style = found,
                          .band = StaircaseOf(times, front),
                          .mark = Mark::kStairs});
  panel.series.push_back({.name = "on_front_of_trials",
                          .style = found,
                          .band = Scattered(times, front),
                          .mark = Mark::kScatter});
  const bool hidden =
      std::any_of(tried.begin(), tried.end(), [&](const CostPoint& point) {
        return point.cost.step_time_s > panel.x_max || point.cost.cost > most;
      });
  panel.note = fmt::format(
      "Trials of all methods and repeats; the front is that of trials that "
      "completed{}.",
      hidden ? ", and trials beyond the axes are not shown" : "");
  return panel;
}

namespace {

// The rows of both fronts of a problem.
struct FrontPoint {
  std::string problem;
  bool of_trials = true;
  CostPoint point;
};

std::vector<FrontPoint> BothFronts(const ProblemRecords& problem) {
  std::vector<FrontPoint> points;
  for (const CostPoint& point : FrontOfTrials(TrialCosts(problem))) {
    points.push_back({problem.info.name, true, point});
  }
  for (const CostPoint& point : FrontOfAll(problem.info)) {
    points.push_back({problem.info.name, false, point});
  }
  return points;
}

Row RowOf(const FrontPoint& one) {
  const CostPoint& point = one.point;
  return {{"problem", "", one.problem},
          {"front", "", one.of_trials ? "trials" : "all"},
          {"", "Pareto front",
           one.of_trials ? "trials, " + point.method : "all configurations"},
          {"method", "", point.method},
          {"gpus", "GPUs", point.gpus},
          {"step_time_s", "s/step", Rounded(point.cost.step_time_s, 4)},
          {std::string(trials::kCost.column),
           std::string(trials::kCost.per_thousand),
           Rounded(point.cost.cost, 4, 1000.0)},
          {"config", "configuration", point.config}};
}

Table TableOfFronts(const std::vector<FrontPoint>& points) {
  return TableOf(points, [](const FrontPoint& one) { return RowOf(one); });
}

}  // namespace

Table ParetoTable(const ProblemRecords& problem) {
  return TableOfFronts(BothFronts(problem));
}

std::string ParetoCsv(const ExperimentRecords& records) {
  bool any = false;
  std::vector<FrontPoint> points;
  for (const ProblemRecords& problem : records.problems) {
    if (HasParetoFront(problem.info)) {
      any = true;
      const std::vector<FrontPoint> both = BothFronts(problem);
      points.insert(points.end(), both.begin(), both.end());
    }
  }
  return any ? ToCsv(TableOfFronts(points)) : "";
}

}  // namespace plots
