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
#include "methods/confidence.h"
#include "studies/early_termination/early_termination.h"
#include "studies/early_termination/finite_process.h"
#include "studies/early_termination/repeated_search.h"

namespace studies {
namespace {

constexpr std::array<Repeats, 2> kRegretRules = {Repeats::kTheoryTau,
                                                 Repeats::kFixedTau};

struct Setting {
  Repeats rule = Repeats::kTheoryTau;
  int q_min = 1;
  double noise = 0.1;
};

// One search after every round, with the outcome of its rounds.
struct Run {
  std::vector<double> regret;         // cumulative
  std::vector<double> printed_bound;  // of Eq. 39, gamma at its most
  std::vector<double> mended_bound;
  bool contained = true;   // Eq. 33 held before every round
  int worse = 0;           // rounds with less f than one before
  int worse_full = 0;      // of those, ran all queries
  int better = 0;          // rounds with more f than all before
  int better_stopped = 0;  // of those, stopped early
};

Run Judge(const std::vector<Round>& rounds, const Setting& setting,
          const methods::Assumption& theory, const Eigen::VectorXd& most_gain,
          double optimum) {
  Run run;
  double regret = 0.0;
  double best = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    const Round& round = rounds[i];
    regret += optimum - round.value;
    const int n = static_cast<int>(i) + 1;
    const double beta = methods::ConfidenceBeta(theory, round.information_gain);
    run.regret.push_back(regret);
    run.printed_bound.push_back(methods::PrintedRegretBound(
        setting.noise, beta, n, most_gain[static_cast<Eigen::Index>(i)],
        setting.q_min));
    run.mended_bound.push_back(methods::RegretBound(
        setting.noise, beta, n, round.information_gain, setting.q_min, 1.0));
    run.contained = run.contained && round.contained;
    const bool full = round.queries == theory.q_max;
    if (round.value < best) {
      ++run.worse;
      run.worse_full += full ? 1 : 0;
    } else if (round.value > best && i > 0) {
      ++run.better;
      run.better_stopped += full ? 0 : 1;
    }
    best = std::max(best, round.value);
  }
  return run;
}

std::vector<Run> RunSetting(const Setting& setting,
                            const RegretOptions& options,
                            const Eigen::MatrixXd& points,
                            const Eigen::MatrixXd& kernel) {
  const methods::Assumption theory{.rkhs_bound = options.rkhs_norm,
                                   .delta = options.delta,
                                   .rounds = options.rounds,
                                   .q_max = options.q_max};
  const Eigen::VectorXd most_gain = MaximumInformationGain(
      kernel, setting.noise * setting.noise / options.q_max, options.rounds);
  std::vector<Run> runs(options.repeats);
  common::ParallelFor(options.repeats, options.threads, [&](int, int repeat) {
    const std::uint64_t seed =
        common::DeriveSeed("regret", static_cast<std::uint64_t>(repeat));
    const Objective objective =
        RandomFunction(points, kernel, options.rkhs_norm, seed);
    const std::vector<Round> rounds =
        SearchWithKnownKernel(objective, kernel,
                              {.repeats = setting.rule,
                               .q_min = setting.q_min,
                               .noise_stddev = setting.noise,
                               .theory = theory},
                              seed);
    runs[repeat] =
        Judge(rounds, setting, theory, most_gain, objective.values.maxCoeff());
  });
  return runs;
}

using RunColumn = std::vector<double> Run::*;

plots::Panel RegretPanel(const std::vector<Run>& runs, const Setting& setting) {
  const int rounds = static_cast<int>(runs.front().regret.size());
  plots::Panel panel{.name = fmt::format("noise-{}", setting.noise),
                     .x_column = "round",
                     .x_label = fmt::format("rounds (s = {})", setting.noise),
                     .y_label = "cumulative regret",
                     .log_y = true,
                     .x_min = 1.0,
                     .x_max = static_cast<double>(rounds)};
  const auto add = [&](const std::string& name, const std::string& label,
                       plots::LineStyle style, RunColumn column) {
    std::vector<std::vector<double>> values;
    for (const Run& run : runs) {
      values.push_back(run.*column);
    }
    panel.series.push_back(
        {.name = name,
         .label = label,
         .style = std::move(style),
         .band = BandOver(Counting(rounds), values, Spread::kRange)});
  };
  add("regret", "regret", plots::StyleOf(0, true), &Run::regret);
  add("printed", "bound of Theorem F.5 as printed", plots::StyleOf(0, false),
      &Run::printed_bound);
  add("mended", "bound with Eq. 43 mended", plots::StyleOf(1, false),
      &Run::mended_bound);
  return panel;
}

// Runs in which the regret exceeds the bound after any round.
int Exceeding(const std::vector<Run>& runs, RunColumn bound) {
  return static_cast<int>(
      std::count_if(runs.begin(), runs.end(), [&](const Run& run) {
        for (std::size_t i = 0; i < run.regret.size(); ++i) {
          if (run.regret[i] > (run.*bound)[i]) {
            return true;
          }
        }
        return false;
      }));
}

plots::Cell Share(double part, double whole) {
  return plots::Figures(
      whole > 0.0 ? fmt::format("{:.1f}%", 100.0 * part / whole) : "-");
}

// The rounds that are stopped, over all runs of a setting.
struct Tally {
  double regret = 0.0;    // in the end, median
  int not_contained = 0;  // runs
  int worse = 0;
  int worse_full = 0;
  int better = 0;
  int better_stopped = 0;
  int runs_with_worse_full = 0;
};

Tally TallyOf(const std::vector<Run>& runs) {
  Tally tally;
  std::vector<double> regrets;
  for (const Run& run : runs) {
    regrets.push_back(run.regret.back());
    tally.not_contained += run.contained ? 0 : 1;
    tally.worse += run.worse;
    tally.worse_full += run.worse_full;
    tally.better += run.better;
    tally.better_stopped += run.better_stopped;
    tally.runs_with_worse_full += run.worse_full > 0 ? 1 : 0;
  }
  tally.regret = common::Median(regrets);
  return tally;
}

void AddRows(const std::vector<Run>& runs, const Setting& setting,
             Output& output) {
  for (std::size_t repeat = 0; repeat < runs.size(); ++repeat) {
    const Run& run = runs[repeat];
    for (std::size_t i = 0; i < run.regret.size(); ++i) {
      output.data.Add({{"rule", NameOf(setting.rule)},
                       {"q_min", setting.q_min},
                       {"noise", setting.noise},
                       {"repeat", repeat + 1},
                       {"round", i + 1},
                       {"regret", run.regret[i]},
                       {"printed_bound", run.printed_bound[i]},
                       {"mended_bound", run.mended_bound[i]}});
    }
  }
  const Tally tally = TallyOf(runs);
  const auto of_runs = [&](int count) {
    return plots::Figures(fmt::format("{}/{}", count, runs.size()));
  };
  output.table.Add(
      {{"tau", NameOf(setting.rule)},
       {"q_min", setting.q_min},
       {"s", setting.noise},
       {"regret", plots::Fixed(tally.regret, 1)},
       {"above F.5 as printed", of_runs(Exceeding(runs, &Run::printed_bound))},
       {"above F.5 mended", of_runs(Exceeding(runs, &Run::mended_bound))},
       {"break F.3", of_runs(tally.not_contained)},
       {"break F.8", of_runs(tally.runs_with_worse_full)},
       {"worse run in full", Share(tally.worse_full, tally.worse)},
       {"better stopped", Share(tally.better_stopped, tally.better)}});
}

// The share of rounds that are stopped, one point per rule and noise level.
plots::Panel StoppedPanel(const std::vector<std::pair<Setting, Tally>>& tallies,
                          bool better) {
  plots::Panel panel{.name = better ? "better" : "worse",
                     .x_column = "setting",
                     .y_label = better ? "stopped of the better (%)"
                                       : "stopped of the worse (%)",
                     .by_name = true,
                     .y_min = 0.0,
                     .y_max = 105.0};
  for (const auto& [setting, tally] : tallies) {
    const double whole = better ? tally.better : tally.worse;
    const double part =
        better ? tally.better_stopped : tally.worse - tally.worse_full;
    const double share = whole > 0.0 ? 100.0 * part / whole
                                     : std::numeric_limits<double>::quiet_NaN();
    const bool theory = setting.rule == Repeats::kTheoryTau;
    panel.series.push_back(
        {.name = fmt::format("{}-{}", NameOf(setting.rule), setting.noise),
         .label =
             fmt::format("{}, {}", theory ? "Eq. 56" : "fixed", setting.noise),
         .style = plots::StyleOf(0, theory),
         .band = LineBand({1.0}, {share}, {share}, {share})});
  }
  return panel;
}

}  // namespace

Output CheckTheorems(const RegretOptions& options) {
  Output output{.name = "theorems"};
  output.conclusion = fmt::format(
      "Median regret, and runs (of {}) in which it exceeds the bound after any "
      "of {} rounds; runs in which f leaves the band of Lemma F.3, or in which "
      "a round that is worse than an earlier one runs all {} queries (Theorem "
      "F.8): each is allowed in {:.0f}% of the runs; the share of such rounds; "
      "the share of rounds that are better than all before and stopped early, "
      "of which the theorems say nothing. |f| = {}, delta = {}.",
      options.repeats, options.rounds, options.q_max, 100.0 * options.delta,
      options.rkhs_norm, options.delta);
  const Eigen::MatrixXd points = UnitGrid(2, options.levels);
  const Eigen::MatrixXd kernel = MaternMatrix(points, options.length_scale);
  const std::string caption = fmt::format(
      "{} random functions of RKHS norm {} on a {} x {} grid, known "
      "Matern-5/2 kernel, q_max = {}, delta = {}",
      options.repeats, options.rkhs_norm, options.levels, options.levels,
      options.q_max, options.delta);
  for (const int q_min : options.q_min) {
    std::vector<std::pair<Setting, Tally>> tallies;
    plots::Figure regret{
        .name = fmt::format("regret-q_min-{}", q_min),
        .title = fmt::format("Regret and its bound, q_min = {}", q_min),
        .caption = caption + "; median and range."};
    for (const Repeats rule : kRegretRules) {
      for (const double noise : options.noise_levels) {
        const Setting setting{rule, q_min, noise};
        const std::vector<Run> runs =
            RunSetting(setting, options, points, kernel);
        AddRows(runs, setting, output);
        tallies.emplace_back(setting, TallyOf(runs));
        if (rule == Repeats::kTheoryTau) {
          regret.panels.push_back(RegretPanel(runs, setting));
        }
      }
    }
    output.figures.push_back(std::move(regret));
    output.figures.push_back(
        {.name = fmt::format("stopped-q_min-{}", q_min),
         .title = fmt::format("What is stopped early, q_min = {}", q_min),
         .caption = caption +
                    ". Worse: than an earlier round; better: than all of "
                    "them. By rule (tau_q of Eq. 56, or tau = 0.001) and s.",
         .panels = {StoppedPanel(tallies, false),
                    StoppedPanel(tallies, true)}});
  }
  return output;
}

}  // namespace studies
