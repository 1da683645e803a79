#include "plots/figures/figures.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "common/ranges.h"
#include "plots/pareto.h"
#include "plots/summary.h"

namespace plots {
namespace {

bool HasIncumbent(const Run& run) {
  return !run.trials.empty() && Incumbents(run.trials).back() >= 0;
}

bool AnyRun(const FigureInput& input, bool (*has)(const Run& run)) {
  return std::ranges::any_of(input.drawn, [&](const Drawn& one) {
    return std::ranges::any_of(one.method->runs, has);
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
    {"ablation", "OPPA as printed and its ablations against search time", "Fig. 7",
     kPrinted, kAblation, Throughput<kTime>},
    {"ablation-views", "OPPA as printed and its ablations against time, trials and steps", "Fig. 24",
     kPrinted, kAblation, Throughput<kTime, kTrials, kSteps>},
    {"ablation-ours", "this project's OPPA and its ablations against search time", "",
     kOurs, kAblation, Throughput<kTime>},
    {"ablation-ours-views", "this project's OPPA and its ablations against time, trials and steps", "",
     kOurs, kAblation, Throughput<kTime, kTrials, kSteps>},
    {"thinking", "suggestion time of each method", "",
     kMethods, kSuggestionTimes, ThinkingPanels},
    {"remaining", "expected gain and probability of being within 5% of the optimum against trials", "",
     kMethods, kEstimates, RemainingPanels},
    {"overview", "ratio to the optimum against trials, mean over problems", "",
     kProblems, kOptima, MeanRatioPanels},
};
// clang-format on

// The family of methods that it shows; "": those to be compared.
std::string_view FamilyOf(FigureSet set) {
  return set == kPrinted ? "oppa-paper" : set == kOurs ? "oppa" : "";
}

// The problems that have an optimum and runs of every method that has any.
std::vector<const ProblemRecords*> Comparable(
    const std::vector<ProblemRecords>& problems) {
  std::size_t methods = 0;
  for (const ProblemRecords& problem : problems) {
    methods = std::max(methods, Select(problem).size());
  }
  std::vector<const ProblemRecords*> comparable;
  for (const ProblemRecords& problem : problems) {
    if (problem.info.optimum_steps_per_s > 0.0 &&
        Select(problem).size() == methods) {
      comparable.push_back(&problem);
    }
  }
  return comparable;
}

bool AllFinished(const std::vector<Drawn>& drawn, int repeats) {
  return std::ranges::all_of(drawn, [&](const Drawn& one) {
    const std::vector<Run>& runs = one.method->runs;
    return std::ssize(runs) == repeats &&
           std::ranges::all_of(runs,
                               [](const Run& run) { return run.finished; });
  });
}

std::string AboutOf(const FigureInput& input, FigureSet set) {
  if (set == kProblems) {
    return fmt::format("Mean over {} problems", input.problems.size());
  }
  const trials::ProblemInfo& problem = input.problems.front()->info;
  const bool one_source = FamilyOf(set).empty() && problem.predictions &&
                          problem.predictions->size() == 1;
  return fmt::format(
      "{}{}{}", problem.description,
      one_source ? "; where a method starts from predictions, they are of the "
                 : "",
      one_source ? problem.predictions->front() : "");
}

// Whose method "OPPA" is, among several methods.
std::string_view WhoseOppa(const FigureInput& input) {
  const auto draws = [&](std::string_view family) {
    return std::ranges::any_of(input.drawn, [&](const Drawn& one) {
      return one.method->family == family || one.method->name == family;
    });
  };
  const bool printed = draws("oppa-paper");
  const bool ours = input.drawn.size() > 1 && draws("oppa");
  return printed && ours ? " OPPA-PAPER is the paper's method as printed; OPPA "
                           "is this project's."
         : printed       ? " OPPA-PAPER is the paper's method as printed."
         : ours          ? " OPPA is this project's version of the method."
                         : "";
}

std::string CaptionOf(const FigureInput& input, int repeats,
                      const Panels& panels) {
  const trials::ProblemInfo& problem = input.problems.front()->info;
  const bool quartiles = std::ranges::any_of(panels, [](const Panel& panel) {
    return std::ranges::any_of(panel.series, [](const Series& series) {
      return HasQuartiles(series.mark);
    });
  });
  return fmt::format(
      "{}; {} repeat{}{}{}.{}", BackendName(problem.backend), repeats,
      repeats == 1 ? "" : "s",
      AllFinished(input.drawn, repeats) ? "" : " (not all finished)",
      repeats == 1 || !quartiles ? "" : ": median and quartiles",
      WhoseOppa(input));
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

namespace {

std::string TitleOf(const ExperimentRecords& records,
                    const ProblemRecords* problem) {
  if (problem != nullptr && !problem->info.name.empty()) {
    return problem->info.name;
  }
  return records.info.title.empty() ? records.info.name : records.info.title;
}

}  // namespace

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
  input.drawn = Select(*input.problems.front(), FamilyOf(kind.set));
  if (input.drawn.empty() || !kind.needs.is_met(input)) {
    return std::nullopt;
  }
  Figure figure{.name = std::string(kind.name),
                .title = TitleOf(records, problem),
                .panels = kind.panels(input)};
  figure.about = AboutOf(input, kind.set);
  figure.caption = CaptionOf(input, records.info.repeats, figure.panels);
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

namespace {

struct NamedFigure {
  std::string name;  // of its problem, in file names
  Figure figure;
};

Figure Join(const std::vector<NamedFigure>& figures) {
  constexpr std::size_t kMostColumns = 4;
  constexpr std::size_t kLetters = 26;
  const std::size_t of_one = figures.front().figure.panels.size();
  Figure joint = figures.front().figure;
  joint.title.clear();
  joint.about.clear();
  joint.panels.clear();
  joint.columns = of_one > 1 ? of_one : std::min(figures.size(), kMostColumns);
  for (const auto& [name, figure] : figures) {
    for (const Panel& panel : figure.panels) {
      Panel& added = joint.panels.emplace_back(panel);
      added.name = of_one > 1 ? name + "-" + panel.name : name;
      const std::size_t index = joint.panels.size() - 1;
      added.title = index < kLetters
                        ? fmt::format("({}) {}", static_cast<char>('a' + index),
                                      figure.title)
                        : figure.title;
    }
    // A sentence ends with a full stop and a space.
    for (std::size_t begin = 0; begin < figure.caption.size();) {
      const std::size_t end =
          std::min(figure.caption.find(". ", begin), figure.caption.size() - 1);
      AddToCaption(figure.caption.substr(begin, end + 1 - begin),
                   joint.caption);
      begin = end + 2;
    }
  }
  char& first = joint.caption.front();
  first = static_cast<char>(std::toupper(static_cast<unsigned char>(first)));
  return joint;
}

}  // namespace

std::vector<Figure> InParts(Figure figure) {
  constexpr std::size_t kOthers = kMostColors - 1;
  if (figure.panels.empty()) {
    return {std::move(figure)};
  }
  const std::size_t lines =
      std::ranges::max(common::Map(figure.panels, [](const Panel& panel) {
        return panel.by_name ? 0 : panel.series.size();
      }));
  // Lines without names in the legend have styles of their own.
  const bool of_methods =
      std::ranges::all_of(figure.panels, [&](const auto& p) {
        return p.series.size() == lines &&
               std::ranges::none_of(p.series, &std::string::empty,
                                    &Series::label);
      });
  if (lines <= kMostColors || !of_methods) {
    return {std::move(figure)};
  }
  const std::size_t count = (lines - 1 + kOthers - 1) / kOthers;
  std::vector<Figure> parts(count, figure);
  for (std::size_t part = 0; part < count; ++part) {
    if (part > 0) {
      parts[part].name += fmt::format("-{}", part + 1);
    }
    parts[part].caption += fmt::format(" Part {} of {}.", part + 1, count);
    for (Panel& panel : parts[part].panels) {
      const std::vector<Series> all = std::move(panel.series);
      panel.series = {all.front()};
      const std::size_t begin = 1 + part * (lines - 1) / count;
      const std::size_t end = 1 + (part + 1) * (lines - 1) / count;
      panel.series.insert(panel.series.end(), all.begin() + begin,
                          all.begin() + end);
      const auto styles = StylesOf(common::Map(panel.series, &Series::name));
      for (std::size_t s = 0; s < styles.size(); ++s) {
        panel.series[s].style = styles[s];
      }
    }
  }
  return parts;
}

std::vector<Figure> JointFigures(
    const std::vector<ExperimentRecords>& experiments,
    const std::vector<std::string>& names) {
  std::vector<Figure> joint;
  for (const FigureKind& kind : kFigures) {
    std::vector<NamedFigure> found;
    for (const ExperimentRecords& records : experiments) {
      for (const ProblemRecords& problem : records.problems) {
        if (auto figure = MakeFigure(kind, records, &problem)) {
          found.push_back({problem.info.name.empty() ? records.info.name
                                                     : problem.info.name,
                           *std::move(figure)});
        }
      }
    }
    const bool chosen = names.empty() || common::Contains(names, kind.name);
    if (chosen && found.size() > 1) {
      joint.push_back(Join(found));
    }
  }
  return joint;
}

}  // namespace plots
