#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "common/hash.h"
#include "common/parallel.h"
#include "common/quantiles.h"
#include "common/ranges.h"
#include "methods/confidence.h"
#include "studies/early_termination/early_termination.h"
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
                       plots::LineStyle style,
                       std::vector<double> Run::*column) {
    panel.series.push_back({.name = name,
                            .label = label,
                            .style = std::move(style),
                            .band = BandOver(runs, column, Spread::kRange)});
  };
  add("regret", "regret", plots::StyleOf(0, true), &Run::regret);
  add("printed", "bound of Theorem F.5 as printed", plots::StyleOf(0, false),
      &Run::printed_bound);
  add("mended", "bound with Eq. 43 mended", plots::StyleOf(1, false),
      &Run::mended_bound);
  return panel;
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
  const auto last =
      common::Map(runs, [](const Run& run) { return run.regret.back(); });
  const auto of_runs = [&](const std::function<bool(const Run&)>& holds) {
    return plots::Figures(
        fmt::format("{}/{}", std::ranges::count_if(runs, holds), runs.size()));
  };
  const auto exceeds = [](std::vector<double> Run::*bound) {
    return [bound](const Run& run) {  // after any round
      return std::ranges::mismatch(run.regret, run.*bound, std::less_equal())
                 .in1 != run.regret.end();
    };
  };
  const auto share = [&](int Run::*part, int Run::*whole) {
    double some = 0.0;
    double all = 0.0;
    for (const Run& run : runs) {
      some += run.*part;
      all += run.*whole;
    }
    return plots::Figures(all > 0.0 ? fmt::format("{:.1f}%", 100.0 * some / all)
                                    : "-");
  };
  output.table.Add(
      {{"tau", NameOf(setting.rule)},
       {"q_min", setting.q_min},
       {"s", setting.noise},
       {"regret", plots::Fixed(common::Median(last), 1)},
       {"above F.5 as printed", of_runs(exceeds(&Run::printed_bound))},
       {"above F.5 mended", of_runs(exceeds(&Run::mended_bound))},
       {"break F.3", of_runs([](const Run& run) { return !run.contained; })},
       {"break F.8",
        of_runs([](const Run& run) { return run.worse_full > 0; })},
       {"worse run in full", share(&Run::worse_full, &Run::worse)},
       {"better stopped", share(&Run::better_stopped, &Run::better)}});
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
      "Matern-5/2 kernel, q_max = {}, delta = {}; median and range.",
      options.repeats, options.rkhs_norm, options.levels, options.levels,
      options.q_max, options.delta);
  for (const int q_min : options.q_min) {
    plots::Figure regret{
        .name = fmt::format("regret-q_min-{}", q_min),
        .title = fmt::format("Regret and its bound, q_min = {}", q_min),
        .caption = caption};
    for (const Repeats rule : kRegretRules) {
      for (const double noise : options.noise_levels) {
        const Setting setting{rule, q_min, noise};
        const std::vector<Run> runs =
            RunSetting(setting, options, points, kernel);
        AddRows(runs, setting, output);
        if (rule == Repeats::kTheoryTau) {
          regret.panels.push_back(RegretPanel(runs, setting));
        }
      }
    }
    output.figures.push_back(std::move(regret));
  }
  return output;
}

}  // namespace studies
