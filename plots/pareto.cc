#include "plots/pareto.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "common/ranges.h"

namespace plots {
namespace {

CostPoint PointOf(const trials::ProblemInfo& problem, double steps_per_s,
                  int gpus, std::string config) {
  const double step_time_s = 1.0 / steps_per_s;
  return {.cost = {step_time_s, problem.valuation().CostOf(step_time_s, gpus)},
          .gpus = gpus,
          .config = std::move(config)};
}

// All points over the same times, ascending, as many of a time as points have
// it; those of equal times take one of these each.
Band Scattered(const std::vector<double>& times,
               const std::vector<CostPoint>& points) {
  Band band{.x = times,
            .y = std::vector(times.size(), AllAt(trials::kUnknown))};
  for (const CostPoint& point : points) {
    auto at = static_cast<std::size_t>(
        std::ranges::lower_bound(times, point.cost.step_time_s) -
        times.begin());
    while (!std::isnan(band.y[at].median)) {
      ++at;
    }
    band.y[at] = AllAt(point.cost.cost);
  }
  return band;
}

// The least cost of a step that takes at most a time.
Band StaircaseOf(const std::vector<double>& times,
                 const std::vector<CostPoint>& front) {
  Band band{.x = times};
  for (const double time : times) {
    double cost = trials::kUnknown;
    for (const CostPoint& point : front) {
      cost = point.cost.step_time_s <= time ? point.cost.cost : cost;
    }
    band.y.push_back(AllAt(cost));
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
  return common::Map(trials::ParetoFront(costs),
                     [&](std::size_t i) { return completed[i]; });
}

std::vector<CostPoint> FrontOfAll(const trials::ProblemInfo& problem) {
  return common::Map(problem.trade_off->pareto, [&](const auto& point) {
    return PointOf(problem, point.steps_per_s, point.gpus, point.config);
  });
}

Panel ParetoPanel(const ProblemRecords& problem) {
  constexpr double kRoom = 1.6;  // beyond the fronts
  constexpr int kDot = 7;        // of gnuplot
  constexpr int kCircle = 6;
  const std::vector<CostPoint> tried = TrialCosts(problem);
  const std::vector<CostPoint> front = FrontOfTrials(tried);
  const std::vector<CostPoint> all = FrontOfAll(problem.info);
  std::vector<double> times;
  for (const auto* points : {&tried, &all}) {
    for (const CostPoint& point : *points) {
      times.push_back(point.cost.step_time_s);
    }
  }
  std::ranges::sort(times);
  Panel panel{.name = "pareto",
              .x_column = "step_time_s",
              .x_label = "time of a step (s)",
              .y_label = std::string(trials::kCost.quantity),
              .y_min = 0.0};
  panel.series = {{.name = "trials",
                   .label = "trials",
                   .style = {.color = "#999999", .symbol = kDot},
                   .band = Scattered(times, tried),
                   .mark = Mark::kScatter}};
  double most = 0.0;
  const auto add = [&](const std::string& name, const std::string& label,
                       LineStyle style, int symbol,
                       const std::vector<CostPoint>& points) {
    for (const CostPoint& point : points) {
      panel.x_max = std::max(panel.x_max, kRoom * point.cost.step_time_s);
      most = std::max(most, kRoom * point.cost.cost);
    }
    style.symbol = symbol;
    panel.series.push_back({.name = name,
                            .label = label,
                            .style = style,
                            .band = StaircaseOf(times, points),
                            .mark = Mark::kStairs});
    panel.series.push_back({.name = "on_" + name,
                            .style = style,
                            .band = Scattered(times, points),
                            .mark = Mark::kScatter});
  };
  if (!all.empty()) {
    add("front_of_all", "front of all configurations, noise-free",
        ThinStyle(0, true), kCircle, all);
  }
  add("front_of_trials", "Pareto front of the trials", StyleOf(0, true), kDot,
      front);
  panel.y_max = most;
  const bool hidden = std::ranges::any_of(tried, [&](const CostPoint& point) {
    return point.cost.step_time_s > panel.x_max || point.cost.cost > most;
  });
  panel.note = fmt::format(
      "Trials of all methods and repeats; the front is that of trials that "
      "completed{}.",
      hidden ? ", and trials beyond the axes are not shown" : "");
  return panel;
}

Table ParetoTable(std::span<const ProblemRecords> problems) {
  const auto row_of = [&](const std::string& problem, const CostPoint& point) {
    const bool of_trials = !point.method.empty();
    return Row{{"problem", problems.size() > 1 ? "problem" : "", problem},
               {"front", "", of_trials ? "trials" : "all"},
               {"", "Pareto front",
                of_trials ? "trials, " + point.method : "all configurations"},
               {"method", "", point.method},
               {"gpus", "GPUs", point.gpus},
               {"step_time_s", "s/step", Rounded(point.cost.step_time_s, 4)},
               {std::string(trials::kCost.column),
                std::string(trials::kCost.per_thousand),
                Rounded(point.cost.cost, 4, 1000.0)},
               {"config", "configuration", point.config}};
  };
  Table table{.columns = row_of("", {})};
  for (const ProblemRecords& problem : problems) {
    if (!HasParetoFront(problem.info)) {
      continue;
    }
    for (const auto& front :
         {FrontOfTrials(TrialCosts(problem)), FrontOfAll(problem.info)}) {
      for (const CostPoint& point : front) {
        table.Add(row_of(problem.info.name, point));
      }
    }
  }
  return table;
}

}  // namespace plots
