#include "plots/trial_panel.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace plots {
namespace {

using trials::Outcome;

// A symbol of gnuplot and a color of the palette for each outcome.
struct OutcomeStyle {
  Outcome outcome;
  const char* name;
  const char* label;
  const char* color;
  int symbol;
};
constexpr std::array<OutcomeStyle, 5> kStyles = {{
    {Outcome::kCompleted, "completed", "completed", "#0072b2", 7},
    {Outcome::kTerminatedEarly, "stopped", "stopped early", "#56b4e9", 6},
    {Outcome::kOutOfMemory, "out_of_memory", "out of memory", "#d55e00", 2},
    {Outcome::kTimedOut, "timed_out", "timed out", "#e69f00", 13},
    {Outcome::kFailed, "failed", "failed", "#cc79a7", 9},
}};

common::Quartiles Point(double y) { return {.q1 = y, .median = y, .q3 = y}; }

Band BandOf(const Run& run, double (*value)(const trials::Trial&)) {
  Band band;
  for (const trials::Trial& trial : run.trials) {
    band.x.push_back(trial.number);
    band.y.push_back(Point(value(trial)));
  }
  return band;
}

}  // namespace

Panel TrialPanel(const Run& run, const trials::ProblemInfo& problem) {
  Panel panel{.name = "trials",
              .x_column = "trial",
              .x_label = "trial",
              .y_label = std::string(problem.valuation().quantity()),
              .x_min = 0.0,
              .x_max = static_cast<double>(run.trials.size()) + 1.0,
              .y_min = 0.0};
  double top = 0.0;
  panel.series.push_back({.name = "incumbent",
                          .label = "best so far",
                          .style = {.color = "#444444"},
                          .band = BandOf(run,
                                         [](const trials::Trial& trial) {
                                           return trial.incumbent_steps_per_s;
                                         }),
                          .mark = Mark::kStairs});
  for (const OutcomeStyle& style : kStyles) {
    Series series{.name = style.name,
                  .label = style.label,
                  .style = {.color = style.color, .symbol = style.symbol},
                  .band = BandOf(run,
                                 [](const trials::Trial& trial) {
                                   return trial.HasThroughput()
                                              ? trial.throughput.steps_per_s
                                              : 0.0;
                                 }),
                  .mark = Mark::kScatter};
    bool any = false;
    for (std::size_t i = 0; i < run.trials.size(); ++i) {
      if (run.trials[i].measurement.outcome != style.outcome) {
        series.band.y[i] = Point(trials::kUnknown);
        continue;
      }
      any = true;
      top = std::max(top, series.band.y[i].median);
    }
    if (any) {
      panel.series.push_back(std::move(series));
    }
  }
  panel.y_max = 1.08 * top;
  panel.note = "Trials without throughput are at 0.";
  return panel;
}

}  // namespace plots
