#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "common/hash.h"
#include "common/parallel.h"
#include "common/quantiles.h"
#include "common/ranges.h"
#include "plots/curve.h"
#include "studies/early_termination/early_termination.h"
#include "studies/early_termination/repeated_search.h"

namespace studies {
namespace {

constexpr std::array<Repeats, 4> kRules = {
    Repeats::kFixedTau, Repeats::kOnce, Repeats::kAlways, Repeats::kTheoryTau};

// One search, after every round.
struct Trace {
  std::vector<double> best;      // f of the best candidate queried
  std::vector<double> queries;   // so far
  std::vector<double> returned;  // f of the returned candidate; 0: none
};

Trace TraceOf(const std::vector<Round>& rounds, int full_queries) {
  Trace trace;
  double best = 0.0;
  double queries = 0.0;
  double returned = 0.0;
  double observed = -std::numeric_limits<double>::infinity();
  for (const Round& round : rounds) {
    best = std::max(best, round.value);
    queries += round.queries;
    if (round.queries >= full_queries && round.observed > observed) {
      observed = round.observed;
      returned = round.value;
    }
    trace.best.push_back(best);
    trace.queries.push_back(queries);
    trace.returned.push_back(returned);
  }
  return trace;
}

// All searches of one function at one noise level, by rule and repeat.
using Cell = std::array<std::vector<Trace>, kRules.size()>;

Cell RunCell(const Objective& objective, double noise,
             const ComparisonOptions& options) {
  Cell cell;
  for (std::vector<Trace>& traces : cell) {
    traces.resize(options.repeats);
  }
  const int tasks = static_cast<int>(kRules.size()) * options.repeats;
  common::ParallelFor(tasks, options.threads, [&](int, int task) {
    const auto rule = static_cast<std::size_t>(task) % kRules.size();
    const int repeat = task / static_cast<int>(kRules.size());
    const SearchOptions search{
        .repeats = kRules[rule],
        .q_min = options.q_min,
        .noise_stddev = noise,
        .theory = {.rounds = options.rounds, .q_max = options.q_max}};
    cell[rule][repeat] =
        TraceOf(SearchWithLearnedKernel(
                    objective, search,
                    common::DeriveSeed(objective.name,
                                       static_cast<std::uint64_t>(repeat))),
                kRules[rule] == Repeats::kOnce ? 1 : options.q_max);
  });
  return cell;
}

using Column = std::vector<double> Trace::*;

plots::Series SeriesOf(std::size_t rule, plots::Band band) {
  return {.name = NameOf(kRules[rule]),
          .label = LabelOf(kRules[rule]),
          .style = plots::StyleOf(rule == 0 ? 0 : static_cast<int>(rule) - 1,
                                  rule == 0),
          .band = std::move(band)};
}

plots::Panel AgainstRounds(const Cell& cell, const std::string& name,
                           const std::string& y_label, Column column) {
  std::vector<plots::Series> series;
  for (std::size_t rule = 0; rule < kRules.size(); ++rule) {
    series.push_back(
        SeriesOf(rule, BandOver(cell[rule], column, Spread::kQuartiles)));
  }
  plots::Panel panel = PanelOver("round", "round", y_label, std::move(series));
  panel.name = name;
  return panel;
}

plots::Panel ReturnedAgainstQueries(const Cell& cell, double most) {
  std::vector<plots::Series> series;
  for (std::size_t rule = 0; rule < kRules.size(); ++rule) {
    std::vector<plots::StepCurve> curves;
    for (const Trace& trace : cell[rule]) {
      curves.push_back({.x = trace.queries,
                        .y = trace.returned,
                        .known_to = trace.queries.back(),
                        .keeps_last = true});
    }
    series.push_back(
        SeriesOf(rule, Aggregate(curves, plots::UniformGrid(0.0, most, 201))));
  }
  plots::Panel panel =
      PanelOver("queries", "queries", "value returned", std::move(series));
  panel.name = "returned";
  panel.y_min = 0.0;
  panel.y_max = 1.05;
  return panel;
}

plots::Figure FigureOf(const Objective& objective, double noise,
                       const Cell& cell, const ComparisonOptions& options) {
  plots::Panel best =
      AgainstRounds(cell, "best", "best value queried", &Trace::best);
  best.y_max = 1.02;
  plots::Panel queries =
      AgainstRounds(cell, "queries", "queries", &Trace::queries);
  queries.log_y = true;
  return {
      .name = fmt::format("fig14-{}-noise-{}", objective.name, noise),
      .title = fmt::format("{}, noise {} of the range", objective.name, noise),
      .caption = fmt::format(
          "q_min = {}, q_max = {}, UCB with beta = 1, kernel learned in "
          "every round; {} repeats: median and quartiles. Returned: the "
          "best mean of a round that ran all its queries.",
          options.q_min, options.q_max, options.repeats),
      .panels = {
          best, queries,
          ReturnedAgainstQueries(cell, 0.5 * options.rounds * options.q_max)}};
}

double LastMedian(const std::vector<Trace>& traces, Column column) {
  return common::Median(common::Map(
      traces, [&](const Trace& trace) { return (trace.*column).back(); }));
}

void AddRows(const Objective& objective, double noise, const Cell& cell,
             Output& output) {
  for (std::size_t rule = 0; rule < kRules.size(); ++rule) {
    for (std::size_t repeat = 0; repeat < cell[rule].size(); ++repeat) {
      const Trace& trace = cell[rule][repeat];
      for (std::size_t i = 0; i < trace.best.size(); ++i) {
        output.data.Add({{"function", objective.name},
                         {"noise", noise},
                         {"rule", NameOf(kRules[rule])},
                         {"repeat", repeat + 1},
                         {"round", i + 1},
                         {"queries", trace.queries[i]},
                         {"best", trace.best[i]},
                         {"returned", trace.returned[i]}});
      }
    }
    output.table.Add(
        {{"function", objective.name},
         {"noise", noise},
         {"rule", NameOf(kRules[rule])},
         {"best queried",
          plots::Fixed(LastMedian(cell[rule], &Trace::best), 3)},
         {"returned",
          plots::Fixed(LastMedian(cell[rule], &Trace::returned), 3)},
         {"queries",
          plots::Fixed(LastMedian(cell[rule], &Trace::queries), 0)}});
  }
}

}  // namespace

Output CompareRules(const ComparisonOptions& options, const Sink& sink) {
  Output output{.name = "comparison"};
  output.conclusion = fmt::format(
      "Medians over {} repeats after {} rounds; 1 is the best value, noise in "
      "units of the range.",
      options.repeats, options.rounds);
  for (const Objective& objective : TestFunctions()) {
    for (const double noise : options.noise_levels) {
      sink.notes << fmt::format("{}, noise {}\n", objective.name, noise);
      const Cell cell = RunCell(objective, noise, options);
      AddRows(objective, noise, cell, output);
      output.figures.push_back(FigureOf(objective, noise, cell, options));
    }
  }
  return output;
}

}  // namespace studies
