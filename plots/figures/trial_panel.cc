#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "common/units.h"
#include "plots/figures/panels.h"

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
constexpr std::array<OutcomeStyle, 6> kStyles = {{
    {Outcome::kCompleted, "completed", "completed", "#0072b2", 7},
    {Outcome::kTerminatedEarly, "stopped", "stopped early", "#56b4e9", 6},
    {Outcome::kOutOfMemory, "out_of_memory", "out of memory", "#d55e00", 2},
    {Outcome::kTimedOut, "timed_out", "timed out", "#e69f00", 13},
    {Outcome::kFailed, "failed", "failed", "#cc79a7", 9},
    {Outcome::kDiverged, "diverged", "diverged", "#009e73", 8},
}};

constexpr OutcomeStyle kImported = {Outcome::kCompleted, "imported",
                                    "completed, imported", "#0072b2", 5};

using ValueOf = std::function<double(const trials::Trial&)>;

Band BandOf(const std::vector<trials::Trial>& trials, const ValueOf& value) {
  Band band;
  for (const trials::Trial& trial : trials) {
    band.x.push_back(trial.number);
    band.y.push_back(AllAt(value(trial)));
  }
  return band;
}

Panel EmptyPanel(const std::vector<trials::Trial>& trials) {
  return {.x_column = "trial",
          .x_label = "trial",
          .x_min = 0.0,
          .x_max = static_cast<double>(trials.size()) + 1.0,
          .y_min = 0.0};
}

double RateOf(const trials::Trial& trial) {
  return trial.HasThroughput() ? trial.throughput.steps_per_s : 0.0;
}

// A series for each outcome that any trial had. Returns the largest value.
double AddOutcomes(const std::vector<trials::Trial>& trials,
                   const ValueOf& value, Panel& panel) {
  const auto is_imported = [](const trials::Trial& trial) {
    return trial.measurement.outcome == Outcome::kCompleted &&
           trial.chosen_by == trials::ChosenBy::kImported;
  };
  double top = 0.0;
  const auto add = [&](const OutcomeStyle& style, bool imported) {
    bool any = false;
    const Band band = BandOf(trials, [&](const trials::Trial& trial) {
      const bool matches = trial.measurement.outcome == style.outcome &&
                           is_imported(trial) == imported;
      any = any || matches;
      return matches ? value(trial) : trials::kUnknown;
    });
    if (!any) {
      return;
    }
    for (const common::Quartiles& y : band.y) {
      top = std::fmax(top, y.median);
    }
    panel.series.push_back(
        {.name = style.name,
         .label = style.label,
         .style = {.color = style.color, .symbol = style.symbol},
         .band = band,
         .mark = Mark::kScatter});
  };
  for (const OutcomeStyle& style : kStyles) {
    add(style, false);
  }
  add(kImported, true);
  return top;
}

}  // namespace

Panel TrialPanel(const std::vector<trials::Trial>& trials,
                 const trials::ProblemInfo& problem,
                 const std::vector<common::Quartiles>& predictions,
                 int chosen) {
  Panel panel = EmptyPanel(trials);
  panel.name = "trials";
  panel.y_label = problem.valuation().quantity();
  panel.series.push_back({.name = "incumbent",
                          .label = "best so far",
                          .style = {.color = "#444444"},
                          .band = BandOf(trials,
                                         [](const trials::Trial& trial) {
                                           return trial.incumbent_steps_per_s;
                                         }),
                          .mark = Mark::kStairs});
  double top = AddOutcomes(trials, RateOf, panel);
  if (std::ranges::any_of(
          predictions, [](const auto& y) { return !std::isnan(y.median); })) {
    Series series{.name = "predicted",
                  .label = "predicted before the trial (95%)",
                  .style = {.color = "#8a949d"},
                  .band = panel.series.front().band,
                  .mark = Mark::kPoints};
    series.band.y = predictions;
    for (const common::Quartiles& y : predictions) {
      top = std::fmax(top, y.median);
    }
    panel.series.insert(panel.series.begin(), std::move(series));
  }
  if (chosen >= 0) {
    const int number = trials[chosen].number;
    panel.series.push_back({.name = "chosen",
                            .label = "best, measured again",
                            .style = {.color = "#d55e00", .symbol = 12},
                            .band = BandOf(trials,
                                           [number](const trials::Trial& one) {
                                             return one.number == number
                                                        ? RateOf(one)
                                                        : trials::kUnknown;
                                           }),
                            .mark = Mark::kScatter});
  }
  if (top > 0.0) {
    panel.y_max = 1.08 * top;
  }
  panel.note = "Trials without throughput are at 0.";
  return panel;
}

Panel MemoryPanel(const std::vector<trials::Trial>& trials,
                  const trials::ProblemInfo& problem) {
  const double capacity_gb =
      problem.memory_capacity_bytes.value_or(trials::kUnknown) / common::kGiga;
  Panel panel = EmptyPanel(trials);
  panel.name = "memory";
  panel.y_label = "peak memory of a GPU (GB)";
  const double top = AddOutcomes(
      trials,
      [&](const trials::Trial& trial) {
        const auto& peak = trial.measurement.peak_memory_bytes;
        return peak ? *peak / common::kGiga
               : trial.measurement.outcome == Outcome::kOutOfMemory
                   ? capacity_gb
                   : trials::kUnknown;
      },
      panel);
  if (!std::isnan(capacity_gb)) {
    panel.horizontal = capacity_gb;
    panel.horizontal_label =
        fmt::format("memory of a GPU: {:.3g} GB", capacity_gb);
  }
  if (std::fmax(top, capacity_gb) > 0.0) {
    panel.y_max = 1.12 * std::fmax(top, capacity_gb);
  }
  return panel;
}

}  // namespace plots
