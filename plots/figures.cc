#include "plots/figures.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "plots/panels.h"
#include "plots/summary_text.h"

namespace plots {
namespace {

Panel Throughput(const FigureInput& input, Cost cost) {
  return ThroughputPanel(
      *input.problems.front(), input.drawn, cost, input.options.value);
}

template <Cost cost>
std::vector<Panel> ThroughputAgainst(const FigureInput& input) {
  return {Throughput(input, cost)};
}

using enum FigureSet;
using enum FigureNeeds;

constexpr std::array kFigures = {
    FigureKind{"throughput-time",
               "best throughput against search time",
               "Fig. 4",
               kMethods,
               kConfiguration,
               ThroughputAgainst<Cost::kTime>},
    FigureKind{"throughput-trials",
               "best throughput against trials",
               "Fig. 16",
               kMethods,
               kConfiguration,
               ThroughputAgainst<Cost::kTrials>},
    FigureKind{"throughput-steps",
               "best throughput against the training steps run in trials",
               "Fig. 17",
               kMethods,
               kConfiguration,
               ThroughputAgainst<Cost::kSteps>},
    FigureKind{"trials-time",
               "configurations tried against search time",
               "Fig. 5a",
               kMethods,
               kRuns,
               [](const FigureInput& input) -> std::vector<Panel> {
                 return {TrialCountPanel(*input.problems.front(), input.drawn)};
               }},
    FigureKind{"training-steps",
               "training steps completed when training follows the search",
               "Fig. 5b",
               kMethods,
               kConfiguration,
               [](const FigureInput& input) {
                 return TrainingPanels(*input.problems.front(),
                                       input.drawn,
                                       input.options.training_hours);
               }},
    FigureKind{"ablation",
               "OPPA and its ablations against search time",
               "Fig. 7",
               kAblations,
               kConfiguration,
               ThroughputAgainst<Cost::kTime>},
    FigureKind{"ablation-views",
               "OPPA and its ablations against time, trials and steps",
               "Fig. 24",
               kAblations,
               kConfiguration,
               [](const FigureInput& input) -> std::vector<Panel> {
                 return {Throughput(input, Cost::kTime),
                         Throughput(input, Cost::kTrials),
                         Throughput(input, Cost::kSteps)};
               }},
    FigureKind{"thinking",
               "suggestion time of each method",
               "",
               kMethods,
               kSuggestionTimes,
               [](const FigureInput& input) -> std::vector<Panel> {
                 return {ThinkingPanel(input.drawn)};
               }},
    FigureKind{"overview",
               "ratio to the optimum against trials, mean over problems",
               "",
               kProblems,
               kOptima,
               [](const FigureInput& input) -> std::vector<Panel> {
                 return {MeanRatioPanel(input.problems)};
               }},
};

std::string_view TextOf(FigureNeeds needs) {
  switch (needs) {
    case kRuns:
      return "a run";
    case kConfiguration:
      return "a trial that completed";
    case kSuggestionTimes:
      return "`thinking.csv`";
    case kOptima:
      return "two problems with a known optimum";
  }
  return "";
}

bool AnyRun(const std::vector<Drawn>& drawn, bool (*has)(const Run& run)) {
  return std::any_of(drawn.begin(), drawn.end(), [&](const Drawn& one) {
    return std::any_of(one.method->runs.begin(), one.method->runs.end(), has);
  });
}

bool HasIncumbent(const Run& run) {
  return !run.trials.empty() && Incumbents(run.trials).back() >= 0;
}

bool Meets(FigureNeeds needs, const FigureInput& input) {
  switch (needs) {
    case kRuns:
      return true;
    case kConfiguration:
      return AnyRun(input.drawn, HasIncumbent);
    case kSuggestionTimes:
      return AnyRun(input.drawn,
                    [](const Run& run) { return !run.thinking.empty(); });
    case kOptima:
      return input.problems.size() >= 2;
  }
  return false;
}

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
           std::all_of(runs.begin(), runs.end(), [](const Run& run) {
             return run.finished;
           });
  });
}

std::string CaptionOf(const FigureInput& input, FigureSet set, int repeats) {
  const trials::ProblemInfo& problem = input.problems.front()->info;
  const std::string backend = BackendName(problem.backend);
  if (set == kProblems) {
    return repeats == 1 ? fmt::format("Mean over {} problems; 1 repeat; {}.",
                                      input.problems.size(),
                                      backend)
                        : fmt::format(
                              "Mean over {} problems of the median (band: of "
                              "the quartiles) over {} repeats; {}.",
                              input.problems.size(),
                              repeats,
                              backend);
  }
  return fmt::format("{}{}{}; {} repeat{}{}{}.",
                     problem.description,
                     problem.description.empty() ? "" : "; ",
                     backend,
                     repeats,
                     repeats == 1 ? "" : "s",
                     AllFinished(input.drawn, repeats) ? ""
                     : repeats == 1                    ? " (not finished)"
                                                       : " (not all finished)",
                     repeats == 1 ? "" : ": median and quartiles");
}

}  // namespace

std::span<const FigureKind> Figures() { return kFigures; }

Table FigureTable() {
  Table table{.header = {"name", "shows", "paper", "needs"},
              .all_are_names = true};
  for (const FigureKind& kind : kFigures) {
    table.rows.push_back(
        {fmt::format("`{}`", kind.name),
         std::string(kind.shows),
         std::string(kind.paper),
         fmt::format("{}{}",
                     TextOf(kind.needs),
                     kind.set == kAblations ? " and an ablation" : "")});
  }
  return table;
}

bool AnyConfigurationRan(const ProblemRecords& problem) {
  return std::any_of(
      problem.methods.begin(), problem.methods.end(), [](const auto& method) {
        return std::any_of(
            method.runs.begin(), method.runs.end(), HasIncumbent);
      });
}

std::optional<Figure> MakeFigure(const FigureKind& kind,
                                 const ExperimentRecords& records,
                                 const ProblemRecords& problem,
                                 const FigureOptions& options) {
  FigureInput input{.problems = {&problem}, .options = options};
  if (kind.set == kProblems) {
    input.problems = Comparable(records.problems);
  }
  if (!input.problems.empty()) {
    input.drawn =
        Select(*input.problems.front(),
               kind.set == kAblations ? Group::kOppaFamily : Group::kMethods);
  }
  const std::size_t least = kind.set == kAblations ? 2 : 1;
  if (input.drawn.size() < least || !Meets(kind.needs, input)) {
    return std::nullopt;
  }
  const bool of_one = kind.set != kProblems && !problem.info.name.empty();
  Figure figure{.name = std::string(kind.name),
                .title = of_one                       ? problem.info.name
                         : records.info.title.empty() ? records.info.name
                                                      : records.info.title,
                .caption = CaptionOf(input, kind.set, records.info.repeats),
                .panels = kind.panels(input)};
  for (const Panel& panel : figure.panels) {
    if (!panel.by_name && !(panel.x_max > 0.0)) {
      return std::nullopt;
    }
    if (!panel.note.empty() &&
        figure.caption.find(panel.note) == std::string::npos) {
      figure.caption += " " + panel.note;
    }
  }
  return figure;
}

}  // namespace plots
