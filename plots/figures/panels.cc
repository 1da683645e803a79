#include "plots/figures/panels.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "common/ranges.h"
#include "common/statistics.h"
#include "common/text.h"
#include "common/units.h"

namespace plots {
namespace {

using common::kSecondsPerHour;

constexpr int kGridPoints = 601;  // every 2 s of 20 minutes

struct TimeUnit {
  double seconds = 1.0;
  const char* name = "s";
};

TimeUnit UnitFor(double time_s) {
  if (time_s < 180.0) {
    return {1.0, "s"};
  }
  return time_s <= 2.0 * kSecondsPerHour ? TimeUnit{60.0, "min"}
                                         : TimeUnit{kSecondsPerHour, "h"};
}

using CurvesByMethod = std::vector<std::vector<StepCurve>>;

CurvesByMethod CurvesOf(const std::vector<Drawn>& drawn,
                        const std::function<StepCurve(const Run&)>& curve) {
  CurvesByMethod curves;
  for (const Drawn& one : drawn) {
    std::vector<StepCurve>& of_method = curves.emplace_back();
    for (const Run& run : one.method->runs) {
      of_method.push_back(curve(run));
    }
  }
  return curves;
}

double LongestLine(const CurvesByMethod& curves) {
  double longest = 0.0;
  for (const std::vector<StepCurve>& of_method : curves) {
    longest = std::max(longest, LineEnd(of_method));
  }
  return longest;
}

// Where the x axis ends: at the budget, or where all searches ended in less
// than half of its time.
double EndOfAxis(const trials::ProblemInfo& problem, Cost cost,
                 const std::vector<Drawn>& drawn,
                 const CurvesByMethod& curves) {
  if (cost == Cost::kTrials && problem.trial_budget > 0) {
    return problem.trial_budget;
  }
  const double budget_s = problem.time_budget_s;
  if (cost != Cost::kTime || !std::isfinite(budget_s)) {
    return LongestLine(curves);
  }
  double end_s = 0.0;
  for (const Drawn& one : drawn) {
    for (const Run& run : one.method->runs) {
      const bool ended = run.finished && !run.trials.empty() &&
                         run.finish_reason != trials::FinishReason::kTimeBudget;
      end_s = std::max(end_s, ended ? run.trials.back().elapsed_s : budget_s);
    }
  }
  constexpr double kMargin = 1.05;
  return end_s < 0.5 * budget_s ? kMargin * end_s : budget_s;
}

// Names, unit and grid of the x axis.
void SetXAxis(Cost cost, double x_max, Panel& panel) {
  panel.x_max = x_max;
  if (cost == Cost::kTime) {
    const TimeUnit unit = UnitFor(x_max);
    panel.name = "time";
    panel.x_column = "time_s";
    panel.x_unit = unit.seconds;
    panel.x_label = fmt::format("search time ({})", unit.name);
  } else if (cost == Cost::kTrials) {
    panel.name = "trials";
    panel.x_column = "trials";
    panel.x_label = "configurations tried";
    panel.x_min = x_max > 1.0 ? 1.0 : 0.0;
  } else {
    panel.name = "steps";
    panel.x_column = "steps";
    panel.x_label = "training steps in trials";
  }
}

// Trials from 1 on, or from 0 if there is only one.
std::vector<double> GridOf(Cost cost, double x_max) {
  const int trials = static_cast<int>(std::ceil(x_max));
  return cost != Cost::kTrials ? UniformGrid(0.0, x_max, kGridPoints)
         : trials > 1          ? UniformGrid(1.0, trials, trials)
                               : UniformGrid(0.0, 1.0, 2);
}

void AddSeries(const std::vector<Drawn>& drawn, const CurvesByMethod& curves,
               const std::vector<double>& grid, Panel& panel) {
  for (std::size_t m = 0; m < drawn.size(); ++m) {
    panel.series.push_back({.name = drawn[m].method->name,
                            .label = drawn[m].method->label,
                            .style = drawn[m].style,
                            .band = Aggregate(curves[m], grid)});
  }
}

// The highest value that is drawn.
double Top(const Panel& panel) {
  double top = 0.0;
  for (const Series& series : panel.series) {
    for (const common::Quartiles& y : series.band.y) {
      top = std::isnan(y.q3) ? top : std::max(top, y.q3);
    }
  }
  return top;
}

// Fits the y axis to the medians of the methods once three quarters of their
// runs have a configuration: on an axis from 0 the lines of good methods would
// coincide.
void ZoomIn(Panel& panel) {
  constexpr double kRoom = 1.06;       // below the top, over the range
  constexpr double kLeastRange = 0.1;  // over the top
  constexpr double kLabelRoom = 0.09;  // above the top, over the axis
  const double top = std::max(panel.horizontal.value_or(0.0), Top(panel));
  double low = std::numeric_limits<double>::infinity();
  for (const Series& series : panel.series) {
    for (std::size_t i = 0; i < series.band.y.size(); ++i) {
      const common::Quartiles& y = series.band.y[i];
      if (y.q1 > 0.0 && series.band.x[i] >= panel.x_min) {
        low = std::min(low, y.median);
      }
    }
  }
  if (!(top > 0.0)) {
    return;
  }
  const double range =
      std::isinf(low) ? top : std::max(top - low, kLeastRange * top);
  panel.y_min = std::max(0.0, top - kRoom * range);
  panel.y_max = top + kLabelRoom * (top - *panel.y_min);
}

// The y axis from the lowest to the highest quartile, with room around them.
void FitToQuartiles(Panel& panel) {
  constexpr double kRoom = 0.1;        // over the range
  constexpr double kLeastRoom = 0.01;  // over the highest
  double low = std::numeric_limits<double>::infinity();
  double high = 0.0;
  for (const Series& series : panel.series) {
    for (const common::Quartiles& y : series.band.y) {
      low = std::min(low, y.q1);
      high = std::max(high, y.q3);
    }
  }
  const double room = std::max(kRoom * (high - low), kLeastRoom * high);
  if (high > 0.0) {
    panel.y_min = std::max(0.0, low - room);
    panel.y_max = high + room;
  }
}

Band TrainingBand(const MethodRecords& method,
                  const std::vector<double>& grid) {
  Band band{.x = grid};
  for (const double t : grid) {
    band.y.push_back(common::ComputeQuartiles(common::Map(
        method.runs, [t](const Run& run) { return TrainingStepsAt(run, t); })));
  }
  return band;
}

// Unlike a throughput, a suggestion time does not hold beyond the last
// suggestion.
StepCurve ThinkingCurve(const Run& run) {
  StepCurve curve{.keeps_last = false};
  for (const trials::SuggestionTime& record : run.suggestion_times) {
    if (!std::isnan(record.wall_s)) {
      curve.x.push_back(record.trial);
      curve.y.push_back(record.wall_s);
      curve.known_to = record.trial;
    }
  }
  return curve;
}

// sum += weight * band, or sum = weight * band for the first.
void AddWeighted(const Band& band, double weight, bool first, Band& sum) {
  for (std::size_t i = 0; i < band.y.size(); ++i) {
    const common::Quartiles before =
        first ? common::Quartiles{0.0, 0.0, 0.0} : sum.y[i];
    sum.y[i] = {.q1 = before.q1 + weight * band.y[i].q1,
                .median = before.median + weight * band.y[i].median,
                .q3 = before.q3 + weight * band.y[i].q3};
  }
}

}  // namespace

std::vector<Drawn> Select(const ProblemRecords& problem,
                          std::string_view family) {
  const bool only_families = std::ranges::all_of(
      problem.methods, [](const auto& m) { return !m.family.empty(); });
  const std::vector<std::string> names =
      common::NamesIn(problem.methods, &MethodRecords::name);
  const std::vector<LineStyle> styles = StylesOf(names);
  std::vector<Drawn> drawn;
  for (std::size_t m = 0; m < names.size(); ++m) {
    const MethodRecords& method = problem.methods[m];
    const bool head = method.name == method.family;  // of its family
    const bool in_group = family.empty()
                              ? only_families || head || method.family.empty()
                              : method.family == family;
    if (in_group && !method.runs.empty()) {
      drawn.push_back({&method, styles[m]});
    }
  }
  std::ranges::stable_sort(drawn, {}, [](const Drawn& one) {
    const MethodRecords& method = *one.method;
    return method.name == "oppa-paper"    ? 0
           : method.name == method.family ? 1
                                          : 2;
  });
  return drawn;
}

Panel ThroughputPanel(const ProblemRecords& problem,
                      const std::vector<Drawn>& drawn, Cost cost) {
  const CurvesByMethod curves = CurvesOf(drawn, [&](const Run& run) {
    return IncumbentCurve(run, problem.info, cost, Value::kMeasured);
  });
  const double x_max = EndOfAxis(problem.info, cost, drawn, curves);
  Panel panel;
  SetXAxis(cost, x_max, panel);
  panel.y_label = fmt::format("best {}", problem.info.valuation().quantity());
  if (problem.info.optimum_steps_per_s > 0.0) {
    panel.horizontal = problem.info.optimum_steps_per_s;
    panel.horizontal_label =
        fmt::format("optimum ({:.3g})", problem.info.optimum_steps_per_s);
    panel.note = "Dotted: the best of all configurations, without noise.";
  }
  AddSeries(drawn, curves, GridOf(cost, x_max), panel);
  if (panel.horizontal && Top(panel) > *panel.horizontal) {
    panel.note += " Measured throughput includes noise and can exceed it.";
  }
  ZoomIn(panel);
  return panel;
}

Panels TrialCountPanels(const FigureInput& input) {
  const ProblemRecords& problem = *input.problems.front();
  const CurvesByMethod curves = CurvesOf(input.drawn, [&](const Run& run) {
    return TrialCountCurve(run, problem.info);
  });
  const double x_max =
      EndOfAxis(problem.info, Cost::kTime, input.drawn, curves);
  Panel panel;
  SetXAxis(Cost::kTime, x_max, panel);
  panel.y_label = "configurations tried";
  panel.y_min = 0.0;
  AddSeries(input.drawn, curves, GridOf(Cost::kTime, x_max), panel);
  return {std::move(panel)};
}

Panels TrainingPanels(const FigureInput& input) {
  const ProblemRecords& problem = *input.problems.front();
  constexpr double kHours = 3.0;  // "a few hours" in the paper's Fig. 5b
  const double end_s = kHours * kSecondsPerHour;
  const TimeUnit unit = UnitFor(end_s);
  Panel lines{.name = "time",
              .x_column = "time_s",
              .x_label = fmt::format("search and training ({})", unit.name),
              .y_label = "training steps done",
              .x_unit = unit.seconds,
              .x_max = end_s,
              .y_min = 0.0};
  lines.note =
      "Training with the best configuration begins when the search ends";
  if (problem.info.time_budget_s < end_s) {
    lines.vertical = problem.info.time_budget_s;
    lines.note += " (dotted: the time budget)";
  }
  lines.note += ".";
  Panel ends{.name = "end",
             .x_column = "time_s",
             .y_label = fmt::format("training steps after {} h", kHours),
             .by_name = true};
  for (const Drawn& one : input.drawn) {
    const Series series{.name = one.method->name,
                        .label = one.method->label,
                        .style = one.style};
    lines.series.push_back(series);
    lines.series.back().band =
        TrainingBand(*one.method, UniformGrid(0.0, end_s, kGridPoints));
    ends.series.push_back(series);
    ends.series.back().band = TrainingBand(*one.method, {end_s});
  }
  FitToQuartiles(ends);
  return {std::move(lines), std::move(ends)};
}

namespace {

// The mean truth over the runs that had an estimate then, as symbols; `truth`
// is of the share of the optimum that the incumbent has.
Series TruthOf(const Drawn& one, const trials::ProblemInfo& problem,
               const std::vector<double>& grid, double (*truth)(double)) {
  Series series{.name = one.method->name + "_true",
                .label = "",
                .style = one.style,
                .band = {.x = grid, .y = {}},
                .mark = Mark::kScatter};
  for (const double trial : grid) {
    std::vector<double> values;
    for (const Run& run : one.method->runs) {
      const double exact = ValueAt(
          IncumbentCurve(run, problem, Cost::kTrials, Value::kExact), trial);
      if (run.remaining.contains(static_cast<int>(trial)) && exact > 0.0) {
        values.push_back(truth(exact / problem.optimum_steps_per_s));
      }
    }
    const double mean =
        values.empty() ? trials::kUnknown : common::Mean(values);
    series.band.y.push_back(AllAt(mean));
  }
  return series;
}

}  // namespace

Panels RemainingPanels(const FigureInput& input) {
  const trials::ProblemInfo& problem = input.problems.front()->info;
  std::vector<Drawn> with_estimates;
  double first = 0.0;
  for (const Drawn& one : input.drawn) {
    bool any = false;
    for (const Run& run : one.method->runs) {
      if (!run.remaining.empty()) {
        any = true;
        first = std::max<double>(first, run.remaining.begin()->first);
      }
    }
    if (any) {
      with_estimates.push_back(one);
    }
  }
  const auto panel_of = [&](const char* name, const char* label,
                            double trials::Remaining::*value,
                            double (*truth)(double)) {
    const CurvesByMethod curves =
        CurvesOf(with_estimates, [value](const Run& run) {
          StepCurve curve{.keeps_last = false};
          for (const auto& [trial, remaining] : run.remaining) {
            curve.x.push_back(trial);
            curve.y.push_back(100.0 * remaining.*value);
            curve.known_to = trial;
          }
          return curve;
        });
    const double x_max = std::max(LongestLine(curves), first);
    Panel panel;
    SetXAxis(Cost::kTrials, x_max, panel);
    panel.name = name;
    panel.y_label = label;
    panel.x_min = x_max > first ? first : 0.0;
    std::vector<double> grid = GridOf(Cost::kTrials, x_max);
    std::erase_if(grid, [&](double x) { return x < panel.x_min; });
    AddSeries(with_estimates, curves, grid, panel);
    if (problem.optimum_steps_per_s > 0.0) {
      for (Series& series : panel.series) {
        series.style.symbol = 0;
      }
      for (const Drawn& one : with_estimates) {
        panel.series.push_back(TruthOf(one, problem, grid, truth));
      }
      panel.note =
          "Lines: as the method estimates it; symbols: the truth, mean.";
    }
    return panel;
  };
  Panel gain =
      panel_of("gain", "left to gain (%)", &trials::Remaining::expected_gain,
               [](double share) { return 100.0 * TrueGain(share); });
  Panel within = panel_of("within-5", "probability of being within 5% (%)",
                          &trials::Remaining::p_within_5, [](double share) {
                            return IsWithin5(share) ? 100.0 : 0.0;
                          });
  within.y_min = 0.0;
  within.y_max = 100.0;
  return {std::move(gain), std::move(within)};
}

Panels ThinkingPanels(const FigureInput& input) {
  const CurvesByMethod curves = CurvesOf(input.drawn, ThinkingCurve);
  const double x_max = LongestLine(curves);
  Panel panel;
  SetXAxis(Cost::kTrials, x_max, panel);
  panel.x_label = "trial";
  panel.y_label = "suggestion time (s)";
  panel.log_y = true;
  std::vector<double> grid = GridOf(Cost::kTrials, x_max);
  std::erase(grid, 0.0);  // there is no suggestion 0
  AddSeries(input.drawn, curves, grid, panel);
  return {std::move(panel)};
}

Panels MeanRatioPanels(const FigureInput& input) {
  const std::vector<const ProblemRecords*>& problems = input.problems;
  std::vector<CurvesByMethod> curves;
  double x_max = 0.0;
  for (const ProblemRecords* problem : problems) {
    curves.push_back(CurvesOf(Select(*problem), [&](const Run& run) {
      return IncumbentCurve(run, problem->info, Cost::kTrials, Value::kExact);
    }));
    x_max = std::max(x_max, LongestLine(curves.back()));
  }
  Panel panel;
  SetXAxis(Cost::kTrials, x_max, panel);
  panel.y_label = "ratio to the optimum";
  panel.horizontal = 1.0;
  panel.horizontal_label = "optimum";
  const std::vector<double> grid = GridOf(Cost::kTrials, x_max);
  for (std::size_t p = 0; p < problems.size(); ++p) {
    Panel one;
    AddSeries(Select(*problems[p]), curves[p], grid, one);
    const double weight = 1.0 / (problems[p]->info.optimum_steps_per_s *
                                 static_cast<double>(problems.size()));
    if (p == 0) {
      panel.series = one.series;
    }
    for (std::size_t s = 0; s < one.series.size(); ++s) {
      AddWeighted(one.series[s].band, weight, p == 0, panel.series[s].band);
    }
  }
  ZoomIn(panel);
  return {std::move(panel)};
}

}  // namespace plots
