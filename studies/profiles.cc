#include "studies/profiles.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>

#include "common/ranges.h"
#include "common/text.h"
#include "common/units.h"
#include "plots/comparison.h"
#include "plots/experiment_records.h"

namespace studies {
namespace {

constexpr std::array<double, 5> kTargets = {0.80, 0.90, 0.95, 0.98, 0.99};
constexpr int kPoints = 101;  // of an axis that is no count

using Contenders = std::vector<Contender>;
using common::Strata;
using SharesByProblem =
    std::map<std::string, Strata::value_type>;  // by problem

Attempt AttemptOf(const plots::Run& run, const std::string& problem,
                  const trials::ProblemInfo& info) {
  const auto curve = [&](plots::Cost cost) {
    plots::StepCurve shares =
        IncumbentCurve(run, info, cost, plots::Value::kExact);
    for (double& value : shares.y) {
      value /= info.optimum_steps_per_s;
    }
    return shares;
  };
  return {.problem = problem,
          .repeat = run.repeat,
          .by_trials = curve(plots::Cost::kTrials),
          .by_time = curve(plots::Cost::kTime),
          .trials = static_cast<double>(run.trials.size()),
          .time_s = run.trials.empty() ? 0.0 : run.trials.back().elapsed_s,
          .budget_s = info.time_budget_s};
}

const Contender& Find(const Contenders& contenders, const std::string& name) {
  common::RequireKnown(name, common::NamesIn(contenders, &Contender::name),
                       "method");
  return *std::ranges::find(contenders, name, &Contender::name);
}

std::set<std::string> ProblemsOf(const Contender& contender) {
  std::set<std::string> problems;
  for (const Attempt& attempt : contender.attempts) {
    problems.insert(attempt.problem);
  }
  return problems;
}

Contenders On(const std::set<std::string>& problems, Contenders contenders) {
  for (Contender& contender : contenders) {
    std::erase_if(contender.attempts, [&](const Attempt& attempt) {
      return !problems.contains(attempt.problem);
    });
  }
  return contenders;
}

// The methods to compare, with their runs of the problems that all of them have
// runs of.
Contenders Compared(const Contenders& all,
                    const std::vector<std::string>& names) {
  Contenders compared = names.empty() ? all : Contenders();
  for (const std::string& name : names) {
    compared.push_back(Find(all, name));
  }
  for (std::size_t i = 0; i < compared.size(); ++i) {
    const std::set<std::string> own = ProblemsOf(compared[i]);
    compared = On(own, std::move(compared));
  }
  if (compared.empty() || compared.front().attempts.empty()) {
    throw common::InputError(
        "profiles: no problem has finished runs of all methods; choose others "
        "with --methods, or complete the runs");
  }
  return compared;
}

// What a run spends until it reaches a target, and in all: trials or seconds.
double ExpectedCost(const Contender& contender, double target, bool time) {
  std::vector<double> to_target;
  std::vector<double> spent;
  for (const Attempt& attempt : contender.attempts) {
    to_target.push_back(
        FirstReached(time ? attempt.by_time : attempt.by_trials, target));
    spent.push_back(time ? attempt.time_s : attempt.trials);
  }
  return ExpectedRunningTime(to_target, spent);
}

// The share of runs for which something holds.
double ShareOf(const Contender& contender,
               const std::function<bool(const Attempt&)>& holds) {
  return static_cast<double>(std::ranges::count_if(contender.attempts, holds)) /
         static_cast<double>(contender.attempts.size());
}

// A row per method and target.
void AddTargets(const std::string& problem, const Contenders& contenders,
                plots::Table& table) {
  const auto random = std::ranges::find(contenders, "random", &Contender::name);
  for (const Contender& contender : contenders) {
    for (const double target : kTargets) {
      const double trials = ExpectedCost(contender, target, false);
      const double factor = random == contenders.end() || !std::isfinite(trials)
                                ? trials::kUnknown
                                : ExpectedCost(*random, target, false) / trials;
      table.Add(
          {{"problem", "", problem},
           {"method", "", contender.name},
           {"label", "method", contender.label},
           {"target", "target (%)", plots::Fixed(target, 0, 100.0)},
           {"runs", contender.attempts.size()},
           {"reached", "reached (%)",
            plots::Fixed(
                ShareOf(contender,
                        [&](const auto& run) { return run.share() >= target; }),
                1, 100.0)},
           {"expected_trials", "expected trials", plots::Rounded(trials, 3)},
           {"expected_time_s", "expected minutes",
            plots::Rounded(ExpectedCost(contender, target, true), 3,
                           1.0 / 60.0)},
           {"random_factor", "RANDOM: times the trials",
            plots::Rounded(factor, 2)}});
    }
  }
}

// The share of the runs of each method for which `holds` is true at x: a line
// with two points at each x, since gnuplot begins a dash anew at every step.
plots::Panel SharePanel(
    const Contenders& contenders, plots::Panel panel,
    const std::vector<double>& x,
    const std::function<bool(const Attempt&, double)>& holds) {
  panel.x_min = x.front();
  panel.x_max = x.back();
  panel.y_min = 0.0;
  panel.y_max = 1.0;
  const std::vector<plots::LineStyle> styles =
      plots::StylesOf(common::Map(contenders, &Contender::name));
  for (const Contender& contender : contenders) {
    std::vector<double> corners;
    std::vector<double> y;
    for (const double at : x) {
      const double share = ShareOf(
          contender, [&](const Attempt& run) { return holds(run, at); });
      corners.insert(corners.end(), {at, at});
      y.insert(y.end(), {y.empty() ? share : y.back(), share});
    }
    panel.series.push_back(
        Line(contender.label, styles[panel.series.size()], corners, y));
  }
  return panel;
}

// A panel for each target: the share of runs that have reached it.
plots::Figure RuntimeProfile(const Contenders& contenders, bool over_time) {
  double most = 0.0;
  for (const Contender& contender : contenders) {
    for (const Attempt& attempt : contender.attempts) {
      most = std::max(most, attempt.trials);
    }
  }
  plots::Figure figure{
      .name = over_time ? "profiles-time" : "profiles-trials",
      .title = "Share of runs that have reached a share of the optimum",
      .caption = "Finished runs of all problems."};
  for (const double target : kTargets) {
    const std::string percent = fmt::format("{:.0f}", 100.0 * target);
    figure.panels.push_back(SharePanel(
        contenders,
        {.name = percent,
         .x_column = over_time ? "budget" : "trials",
         .x_label = over_time ? "share of the time budget" : "trials",
         .y_label = "runs at " + percent + "%"},
        over_time ? plots::UniformGrid(0.0, 1.0, kPoints)
                  : Counting(static_cast<int>(most)),
        [=](const Attempt& attempt, double at) {
          return (over_time
                      ? FirstReached(attempt.by_time, target) / attempt.budget_s
                      : FirstReached(attempt.by_trials, target)) <= at;
        }));
  }
  return figure;
}

plots::Figure PerformanceProfile(const Contenders& contenders) {
  return {.name = "performance-profile",
          .title = "Share of runs that end at a share of the optimum or above",
          .caption = "Finished runs of all problems.",
          .panels = {SharePanel(contenders,
                                {.x_column = "share",
                                 .x_label = "share of the optimum",
                                 .y_label = "runs"},
                                plots::UniformGrid(0.5, 1.0, kPoints),
                                [](const Attempt& attempt, double at) {
                                  return attempt.share() >= at;
                                })}};
}

// The final shares of the methods of a chain, by problem, for every repeat that
// all of them have.
SharesByProblem SharesOf(const Contenders& all, const std::string& chain) {
  std::map<std::string, std::map<int, std::vector<double>>> found;
  std::size_t methods = 0;
  for (const std::string_view name : common::Split(chain, ',')) {
    ++methods;
    for (const Attempt& attempt : Find(all, std::string(name)).attempts) {
      found[attempt.problem][attempt.repeat].push_back(attempt.share());
    }
  }
  SharesByProblem shares;
  for (const auto& [problem, repeats] : found) {
    for (const auto& [repeat, values] : repeats) {
      if (values.size() == methods) {
        shares[problem].push_back(values);
      }
    }
  }
  return shares;
}

Strata ProblemsIn(const SharesByProblem& shares) {
  return common::Map(shares, &SharesByProblem::value_type::second);
}

double MeanOver(const Strata& strata,
                const std::function<double(const std::vector<double>&)>& of) {
  double sum = 0.0;
  for (const auto& runs : strata) {
    double of_problem = 0.0;
    for (const std::vector<double>& run : runs) {
      of_problem += of(run);
    }
    sum += of_problem / static_cast<double>(runs.size());
  }
  return sum / static_cast<double>(strata.size());
}

plots::Table ScoreTable(const Contenders& contenders) {
  plots::Table table;
  for (const Contender& contender : contenders) {
    const Strata strata = ProblemsIn(SharesOf(contenders, contender.name));
    const auto interquartile = [](const Strata& drawn) {
      std::vector<double> all;
      for (const auto& runs : drawn) {
        for (const std::vector<double>& run : runs) {
          all.push_back(run.front());
        }
      }
      return InterquartileMean(std::move(all));
    };
    const auto mean = [](const Strata& drawn) {
      return MeanOver(drawn, [](const auto& run) { return run.front(); });
    };
    table.Add(
        {{"method", "", contender.name},
         {"label", "method", contender.label},
         {"problems", strata.size()},
         {"runs", contender.attempts.size()},
         {"interquartile_mean", "interquartile mean (%)",
          plots::Interval(common::Bootstrap(strata, interquartile), 1, 100.0)},
         {"mean", "mean (%)",
          plots::Interval(common::Bootstrap(strata, mean), 1, 100.0)}});
  }
  return table;
}

// A method minus another one of a chain on some problems, and that as a part of
// the last minus the first.
plots::Row StepRow(const std::string& problem, const Strata& shares,
                   std::size_t from, std::size_t to) {
  const std::size_t last = shares.front().front().size() - 1;
  const auto mean_of = [](std::size_t first, std::size_t second) {
    return [=](const Strata& drawn) {
      return MeanOver(drawn, [=](const std::vector<double>& run) {
        return run[second] - run[first];
      });
    };
  };
  const auto differences =
      common::Map(shares.front(), [&](const std::vector<double>& run) {
        return plots::Quantized(run[to] - run[from]);
      });
  const auto part = [=](const Strata& drawn) {
    return mean_of(from, to)(drawn) / mean_of(0, last)(drawn);
  };
  const auto of_problems = common::Map(
      shares, [&](const auto& runs) { return mean_of(from, to)({runs}); });
  const common::PairedTest test = common::TestPairs(
      shares.size() == 1 ? differences : std::vector<double>());
  return {
      {"problem", problem},
      {"difference", "difference (points)",
       plots::Interval(common::Bootstrap(shares, mean_of(from, to)), 1, 100.0)},
      {"part", "part (%)",
       plots::Interval(from == 0 && to == last
                           ? common::Estimate()
                           : common::Bootstrap(shares, part),
                       0, 100.0)},
      {"pairs", "", test.pairs},
      {"", "better/worse/equal",
       plots::Figures(test.pairs == 0 ? ""
                                      : fmt::format("{}/{}/{}", test.wins,
                                                    test.losses, test.ties))},
      {"wilcoxon_p", "p", plots::Rounded(test.wilcoxon_p, 2)},
      {"rank_biserial", "rank-biserial", plots::Fixed(test.rank_biserial, 2)},
      {"mixed_p", "p over problems",
       plots::Rounded(common::StudentP(of_problems), 2)}};
}

// The steps of a chain, and all of them together: on each problem, and as means
// over problems.
void AddSteps(const Contenders& all, const std::string& chain, Output& output) {
  const auto names = common::Split(chain, ',');
  const auto problems = SharesOf(all, chain);
  const Strata whole = ProblemsIn(problems);
  const auto add = [&](std::size_t from, std::size_t to) {
    const auto row = [&](const std::string& problem, const Strata& shares) {
      plots::Row cells = StepRow(problem, shares, from, to);
      cells.insert(cells.begin(),
                   {{"from", Find(all, std::string(names[from])).label},
                    {"to", Find(all, std::string(names[to])).label}});
      return cells;
    };
    for (const auto& [problem, shares] : problems) {
      output.data.Add(row(problem, {shares}));
    }
    if (whole.size() == 1) {
      output.table.Add(row(problems.begin()->first, whole));
    } else if (!whole.empty()) {
      output.table.Add(row("(mean)", whole));
      output.data.Add(row("(mean)", whole));
    }
  };
  for (std::size_t to = 1; to < names.size(); ++to) {
    add(to - 1, to);
  }
  if (names.size() > 2) {
    add(0, names.size() - 1);
  }
}

}  // namespace

double ExpectedRunningTime(const std::vector<double>& to_target,
                           const std::vector<double>& spent) {
  double total = 0.0;
  int reached = 0;
  for (std::size_t i = 0; i < spent.size(); ++i) {
    total += std::min(to_target[i], spent[i]);
    reached += std::isfinite(to_target[i]) ? 1 : 0;
  }
  return reached > 0 ? total / reached : common::kInfinity;
}

double InterquartileMean(std::vector<double> values) {
  std::ranges::sort(values);
  const auto cut = static_cast<std::ptrdiff_t>(values.size() / 4);
  return common::Mean({values.begin() + cut, values.end() - cut});
}

Contenders LoadContenders(const std::vector<std::string>& folders) {
  Contenders contenders;
  for (const std::string& folder : folders) {
    const plots::ExperimentRecords records = plots::LoadExperiment(folder);
    for (const plots::ProblemRecords& problem : records.problems) {
      if (!(problem.info.optimum_steps_per_s > 0.0)) {
        throw common::InputError(
            fmt::format("{}: the optimum of {} is not known, so there are no "
                        "shares of it; leave the experiment out",
                        folder, problem.info.name));
      }
      std::string name = std::filesystem::path(folder).filename();
      name += problem.info.name.empty() ? "" : "/" + problem.info.name;
      for (const plots::MethodRecords& method : problem.methods) {
        auto found =
            std::ranges::find(contenders, method.name, &Contender::name);
        if (found == contenders.end()) {
          found = contenders.insert(found, {method.name, method.label, {}});
        }
        for (const plots::Run& run : method.runs) {
          if (run.finished) {
            found->attempts.push_back(AttemptOf(run, name, problem.info));
          }
        }
      }
    }
  }
  return contenders;
}

std::vector<Output> Profiles(const Contenders& contenders,
                             const ProfilesOptions& options) {
  const Contenders compared = Compared(contenders, options.methods);
  Output targets{
      .name = "targets",
      .conclusion =
          "Expected: what all runs spent until they reached the target or "
          "ended, over the number of runs that reached it.",
      .figures = {RuntimeProfile(compared, false)}};
  AddTargets("(all)", compared, targets.table);
  targets.data = targets.table;
  for (const std::string& problem : ProblemsOf(compared.front())) {
    AddTargets(problem, On({problem}, compared), targets.data);
  }
  if (std::ranges::all_of(compared.front().attempts, [](const Attempt& run) {
        return std::isfinite(run.budget_s);
      })) {
    targets.figures.push_back(RuntimeProfile(compared, true));
  }
  std::vector<Output> outputs = {
      std::move(targets),
      {.name = "scores",
       .table = ScoreTable(compared),
       .conclusion = "Share of the optimum at the end of all runs, with 95% "
                     "bootstrap intervals over repeats.",
       .figures = {PerformanceProfile(compared)}}};
  if (!options.steps.empty()) {
    Output& steps = outputs.emplace_back(
        Output{.name = "steps",
               .conclusion =
                   "Second method minus first, share of the optimum at the "
                   "end, paired by repeat: 95% bootstrap intervals over "
                   "repeats, Wilcoxon's signed-rank test without adjustment."});
    for (const std::string& chain : options.steps) {
      AddSteps(contenders, chain, steps);
    }
    steps.table.HideEmpty();
  }
  return outputs;
}

}  // namespace studies
