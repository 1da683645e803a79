#include "plots/figures/figures.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "plots/figures/panels.h"
#include "plots/pareto.h"
#include "plots/summary.h"

namespace plots {
namespace {

bool HasIncumbent(const Run& run) {
  return !run.trials.empty() && Incumbents(run.trials).back() >= 0;
}

bool AnyRun(const FigureInput& input, bool (*has)(const Run& run)) {
  return std::any_of(input.drawn.begin(), input.drawn.end(),
                     [&](const Drawn& one) {
                       return std::any_of(one.method->runs.begin(),
                                          one.method->runs.end(), has);
                     });
}

constexpr FigureNeed kRun = {"a run", [](const auto&) { return true; }};
constexpr FigureNeed kCompleted = {
    "a trial that completed",
    [](const auto& input) { return AnyRun(input, HasIncumbent); }};
constexpr FigureNeed kOfTime = {
    "a trial that completed, the objective time", [](const auto& input) {
      return input.problems.front()->info.valuation().IsThroughput() &&
             AnyRun(input, HasIncumbent);
    }};
constexpr FigureNeed kFront = {
    "a trial that completed, several numbers of GPUs, their price",
    [](const auto& input) {
      return HasParetoFront(input.problems.front()->info) &&
             AnyRun(input, HasIncumbent);
    }};
constexpr FigureNeed kOneRun = {
    "a trial that completed, one run", [](const auto& input) {
      return input.drawn.size() == 1 &&
             input.drawn.front().method->runs.size() == 1 &&
             AnyRun(input, HasIncumbent);
    }};
constexpr FigureNeed kAblation = {
    "a trial that completed, an ablation", [](const auto& input) {
      return input.drawn.size() >= 2 && AnyRun(input, HasIncumbent);
    }};
constexpr FigureNeed kSuggestionTimes = {
    "`thinking.csv`", [](const auto& input) {
      return AnyRun(
          input, [](const Run& run) { return !run.suggestion_times.empty(); });
    }};
constexpr FigureNeed kEstimates = {
    "a method that estimates the remaining gain", [](const auto& input) {
      return AnyRun(input,
                    [](const Run& run) { return !run.remaining.empty(); });
    }};
constexpr FigureNeed kOptima = {
    "two problems with a known optimum",
    [](const auto& input) { return input.problems.size() >= 2; }};

void AddToCaption(const std::string& sentence, std::string& caption) {
  if (!sentence.empty() && caption.find(sentence) == std::string::npos) {
    caption += " " + sentence;
  }
}

template <Cost... costs>
Panels Throughput(const FigureInput& input) {
  return {ThroughputPanel(*input.problems.front(), input.drawn, costs)...};
}

Panels Trials(const FigureInput& input) {
  return {TrialPanel(input.drawn.front().method->runs.front().trials,
                     input.problems.front()->info)};
}

Panels Pareto(const FigureInput& input) {
  return {ParetoPanel(*input.problems.front())};
}

using enum FigureSet;
using enum Cost;

// clang-format off
constexpr FigureKind kFigures[] = {
    {"throughput-time", "best throughput against search time", "Fig. 4",
     kMethods, kCompleted, Throughput<kTime>},
    {"throughput-trials", "best throughput against trials", "Fig. 16",
     kMethods, kCompleted, Throughput<kTrials>},
    {"throughput-steps", "best throughput against the training steps run in trials", "Fig. 17",
     kMethods, kCompleted, Throughput<kSteps>},
    {"trials", "throughput and outcome of each trial", "",
     kMethods, kOneRun, Trials},
    {"trials-time", "configurations tried against search time", "Fig. 5a",
     kMethods, kRun, TrialCountPanels},
    {"training-steps", "training steps completed when training follows the search", "Fig. 5b",
     kMethods, kOfTime, TrainingPanels},
    {"pareto", "money of a step against its time: all trials, and their Pareto front", "",
     kMethods, kFront, Pareto},
    {"ablation", "OPPA and its ablations against search time", "Fig. 7",
     kAblations, kAblation, Throughput<kTime>},
    {"ablation-views", "OPPA and its ablations against time, trials and steps", "Fig. 24",
     kAblations, kAblation, Throughput<kTime, kTrials, kSteps>},
    {"thinking", "suggestion time of each method", "",
     kMethods, kSuggestionTimes, ThinkingPanels},
    {"remaining", "expected gain and probability of being within 5% of the optimum against trials", "",
     kMethods, kEstimates, RemainingPanels},
    {"overview", "ratio to the optimum against trials, mean over problems", "",
     kProblems, kOptima, MeanRatioPanels},
};
// clang-format on

// The problems that have an optimum and runs of every method that has any.
std::vector<const ProblemRecords*> Comparable(
    const std::vector<ProblemRecords>& problems) {
  std::size_t methods = 0;
  for (const ProblemRecords& problem : problems) {
    methods = std::max(methods, Select(problem, Group::kMethods).size());
  }
  std::vector<const ProblemRecords*> comparable;
  for (const ProblemRecords& problem : problems) {
    if (problem.info.optimum_steps_per_s > 0.0 &&
        Select(problem, Group::kMethods).size() == methods) {
      comparable.push_back(&problem);
    }
  }
  return comparable;
}

bool AllFinished(const std::vector<Drawn>& drawn, int repeats) {
  return std::all_of(drawn.begin(), drawn.end(), [&](const Drawn& one) {
    const std::vector<Run>& runs = one.method->runs;
    return std::ssize(runs) == repeats &&
           std::all_of(runs.begin(), runs.end(),
                       [](const Run& run) { return run.finished; });
  });
}

std::string CaptionOf(const FigureInput& input, FigureSet set, int repeats,
                      const Panels& panels) {
  const trials::ProblemInfo& problem = input.problems.front()->info;
  const std::string head =
      set == kProblems
          ? fmt::format("Mean over {} problems", input.problems.size())
          : problem.description;
  const bool one_source = set != kProblems && problem.predictions &&
                          problem.predictions->size() == 1;
  const bool quartiles =
      std::any_of(panels.begin(), panels.end(), [](const Panel& panel) {
        return std::any_of(
            panel.series.begin(), panel.series.end(),
            [](const Series& series) { return HasQuartiles(series.mark); });
      });
  return fmt::format(
      "{}{}{}{}{}; {} repeat{}{}{}.", head, head.empty() ? "" : "; ",
      BackendName(problem.backend), one_source ? "; predictions: " : "",
      one_source ? problem.predictions->front() : "", repeats,
      repeats == 1 ? "" : "s",
      AllFinished(input.drawn, repeats) ? "" : " (not all finished)",
      repeats == 1 || !quartiles ? "" : ": median and quartiles");
}

}  // namespace

std::span<const FigureKind> Figures() { return kFigures; }

Table FigureTable() {
  Table table;
  for (const FigureKind& kind : kFigures) {
    table.Add({{"name", fmt::format("`{}`", kind.name)},
               {"shows", kind.shows},
               {"paper", kind.paper},
               {"needs", kind.needs.text}});
  }
  return table;
}

bool AnyConfigurationRan(const ProblemRecords& problem) {
  return std::any_of(problem.methods.begin(), problem.methods.end(),
                     [](const auto& method) {
                       return std::any_of(method.runs.begin(),
                                          method.runs.end(), HasIncumbent);
                     });
}

std::optional<Figure> MakeFigure(const FigureKind& kind,
                                 const ExperimentRecords& records,
                                 const ProblemRecords* problem) {
  const bool of_all = kind.set == kProblems;
  FigureInput input;
  if (of_all) {
    input.problems = Comparable(records.problems);
  } else if (problem != nullptr) {
    input.problems = {problem};
  }
  if (of_all != (problem == nullptr) || input.problems.empty()) {
    return std::nullopt;
  }
  input.drawn =
      Select(*input.problems.front(),
             kind.set == kAblations ? Group::kAblations : Group::kMethods);
  if (input.drawn.empty() || !kind.needs.is_met(input)) {
    return std::nullopt;
  }
  Figure figure{.name = std::string(kind.name),
                .title = !of_all && !problem->info.name.empty()
                             ? problem->info.name
                         : records.info.title.empty() ? records.info.name
                                                      : records.info.title,
                .panels = kind.panels(input)};
  figure.caption =
      CaptionOf(input, kind.set, records.info.repeats, figure.panels);
  for (const Panel& panel : figure.panels) {
    if (!panel.by_name && !(panel.x_max > 0.0)) {
      return std::nullopt;
    }
    AddToCaption(panel.note, figure.caption);
    if (panel.y_min.value_or(0.0) > 0.0 && !panel.log_y) {
      AddToCaption(
          fmt::format("The axis \"{}\" does not start at 0.", panel.y_label),
          figure.caption);
    }
  }
  return figure;
}

}  // namespace plots
