#include "plots/figures.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "plots/panels.h"
#include "plots/summary_text.h"

namespace plots {
namespace {

std::string TitleOf(const trials::ExperimentInfo& info) {
  return info.title.empty() ? info.name : info.title;
}

std::string CaptionOf(const ProblemRecords& problem,
                      const std::vector<Drawn>& drawn,
                      int repeats) {
  const bool finished =
      std::all_of(drawn.begin(), drawn.end(), [&](const Drawn& one) {
        const std::vector<Run>& runs = one.method->runs;
        return runs.size() == static_cast<std::size_t>(repeats) &&
               std::all_of(runs.begin(), runs.end(), [](const Run& run) {
                 return run.finished;
               });
      });
  const std::string& description = problem.info.description;
  return fmt::format("{}{}{}; {} repeat{}{}: median and quartiles.",
                     description,
                     description.empty() ? "" : "; ",
                     BackendName(problem.info.backend),
                     repeats,
                     repeats == 1 ? "" : "s",
                     finished ? "" : " (not all finished)");
}

// What else a reader has to know.
std::string NoteOf(const std::string& name, const std::vector<Panel>& panels) {
  std::string note;
  if (name == "training-steps") {
    note += " Training with the best configuration begins when the search ends";
    note += panels.front().vertical ? " (dotted: the time budget)." : ".";
  }
  return note;
}

bool HasThinking(const std::vector<Drawn>& drawn) {
  return std::any_of(drawn.begin(), drawn.end(), [](const Drawn& one) {
    return std::any_of(
        one.method->runs.begin(), one.method->runs.end(), [](const Run& run) {
          return !run.suggestion_times.empty();
        });
  });
}

std::vector<Panel> PanelsOf(const std::string& name,
                            const ProblemRecords& problem,
                            const std::vector<Drawn>& drawn,
                            const FigureOptions& options) {
  const auto throughput = [&](Cost cost) {
    return ThroughputPanel(problem, drawn, cost, options.value);
  };
  if (name == "throughput-time" || name == "ablation") {
    return {throughput(Cost::kTime)};
  }
  if (name == "throughput-trials") {
    return {throughput(Cost::kTrials)};
  }
  if (name == "throughput-steps") {
    return {throughput(Cost::kSteps)};
  }
  if (name == "ablation-views") {
    return {throughput(Cost::kTime),
            throughput(Cost::kTrials),
            throughput(Cost::kSteps)};
  }
  if (name == "trials-time") {
    return {TrialCountPanel(problem, drawn)};
  }
  if (name == "training-steps") {
    return TrainingPanels(problem, drawn, options.training_hours);
  }
  if (name == "thinking" && HasThinking(drawn)) {
    return {ThinkingPanel(drawn)};
  }
  return {};
}

}  // namespace

std::optional<Figure> MakeFigure(const std::string& name,
                                 const ExperimentRecords& records,
                                 const ProblemRecords& problem,
                                 const FigureOptions& options) {
  const bool ablation = name.starts_with("ablation");
  const std::vector<Drawn> drawn =
      Select(problem, ablation ? Group::kAblations : Group::kMethods);
  if (drawn.size() < (ablation ? 2 : 1)) {
    return std::nullopt;
  }
  std::vector<Panel> panels = PanelsOf(name, problem, drawn, options);
  const bool empty =
      panels.empty() ||
      std::any_of(panels.begin(), panels.end(), [](const Panel& panel) {
        return !panel.by_name && !(panel.x_max > 0.0);
      });
  if (empty) {
    return std::nullopt;
  }
  std::string caption =
      CaptionOf(problem, drawn, records.info.repeats) + NoteOf(name, panels);
  return Figure{.name = name,
                .title = problem.info.name.empty() ? TitleOf(records.info)
                                                   : problem.info.name,
                .caption = std::move(caption),
                .panels = std::move(panels)};
}

std::optional<Figure> MakeOverview(const ExperimentRecords& records) {
  std::size_t methods = 0;
  for (const ProblemRecords& problem : records.problems) {
    methods = std::max(methods, Select(problem, Group::kMethods).size());
  }
  std::vector<const ProblemRecords*> comparable;
  for (const ProblemRecords& problem : records.problems) {
    if (problem.info.optimum_steps_per_s > 0.0 &&
        Select(problem, Group::kMethods).size() == methods) {
      comparable.push_back(&problem);
    }
  }
  if (comparable.size() < 2 || methods == 0) {
    return std::nullopt;
  }
  return Figure{
      .name = "overview",
      .title = TitleOf(records.info),
      .caption = fmt::format(
          "Mean over {} problems of the median (band: of the quartiles) over "
          "{} repeats; {}.",
          comparable.size(),
          records.info.repeats,
          BackendName(comparable.front()->info.backend)),
      .panels = {MeanRatioPanel(comparable)}};
}

}  // namespace plots
