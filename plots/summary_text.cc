#include "plots/summary_text.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "plots/summary_table.h"
#include "plots/table.h"

namespace plots {
namespace {

// One or two lines about the problem itself.
std::string Describe(const ProblemSummary& problem) {
  const trials::ProblemInfo& info = problem.info;
  std::string text =
      fmt::format("{}{}",
                  info.description.empty() ? "" : info.description + "; ",
                  BackendName(info.backend));
  text += fmt::format("; {} configurations", info.candidates);
  if (info.feasible >= 0) {
    text += fmt::format(", {} of them fit", info.feasible);
  }
  for (const std::string& source :
       info.predictions.value_or(std::vector<std::string>())) {
    text += fmt::format(";\npredictions: {}", source);
  }
  if (info.optimum_steps_per_s > 0.0) {
    text += fmt::format(";\nexhaustive optimum, noise-free: {} steps/s: {}",
                        Rounded(info.optimum_steps_per_s, 4),
                        info.optimum_config);
  }
  return text + "\n";
}

// A line if there are runs, but no trial of them completed.
std::string NothingRan(const ProblemSummary& problem) {
  bool any_run = false;
  for (const MethodSummary& s : problem.methods) {
    any_run = any_run || s.runs > 0;
    if (!s.best_config.empty()) {
      return "";
    }
  }
  return any_run ? "no configuration ran: no trial completed\n" : "";
}

std::string BestFound(const ProblemSummary& problem) {
  const auto best =
      std::max_element(problem.methods.begin(),
                       problem.methods.end(),
                       [](const MethodSummary& a, const MethodSummary& b) {
                         return std::isnan(a.best_steps_per_s) ||
                                a.best_steps_per_s < b.best_steps_per_s;
                       });
  if (best == problem.methods.end() || best->best_config.empty()) {
    return NothingRan(problem);
  }
  return fmt::format("best found, {}: {} steps/s: {} ({})\n",
                     best->best_is_exact ? "noise-free" : "measured",
                     Rounded(best->best_steps_per_s, 4),
                     best->best_config,
                     best->label);
}

std::string MeanTitle(const Summary& summary,
                      const trials::ExperimentInfo& info) {
  const std::string problems = fmt::format("Mean over {} of {} problems",
                                           summary.mean.problems,
                                           info.problems.size());
  return info.repeats == 1
             ? problems + ", 1 repeat"
             : fmt::format(
                   "{} of the median over {} repeats", problems, info.repeats);
}

// Adds the meaning of a table's columns, every one once, with `quote` around
// their names.
void Explain(const Table& table, std::string_view quote, std::string& legend) {
  for (const std::string& header : table.header) {
    const std::string entry =
        fmt::format("{0}{1}{0}: {2}.", quote, header, MeaningOf(header));
    if (!MeaningOf(header).empty() && legend.find(entry) == std::string::npos) {
      legend += (legend.empty() ? "" : " ") + entry;
    }
  }
}

std::string Lines(const std::string& legend) {
  constexpr std::size_t kWidth = 116;
  return fmt::format("{}\n", fmt::join(Wrap(legend, kWidth), "\n"));
}

std::string LegendFor(int repeats) {
  return repeats == 1 ? "" : "Median [quartiles] over repeats.";
}

}  // namespace

std::string ToMarkdown(const Summary& summary,
                       const trials::ExperimentInfo& info) {
  std::string legend = LegendFor(info.repeats);
  const auto wide = [&](const std::vector<MethodSummary>& methods) {
    const Table table = WideTable(methods, info.repeats);
    Explain(table, "`", legend);
    return ToMarkdown(table);
  };
  std::string text =
      fmt::format("# {}\n\n", info.title.empty() ? info.name : info.title);
  if (!summary.mean.methods.empty()) {
    text += fmt::format("## {}\n\n{}\n{}\n",
                        MeanTitle(summary, info),
                        wide(summary.mean.methods),
                        ToMarkdown(RatioTable(summary)));
  }
  for (const ProblemSummary& problem : summary.problems) {
    if (!problem.info.name.empty()) {
      text += fmt::format("## {}\n\n", problem.info.name);
    }
    const std::string nothing = NothingRan(problem);
    text += fmt::format(
        "{}\n{}\n{}\n",
        Describe(problem),
        wide(problem.methods),
        nothing.empty() ? ToMarkdown(ConfigTable(problem)) : nothing);
  }
  return text + Lines(legend);
}

std::string ToText(const Summary& summary, const trials::ExperimentInfo& info) {
  std::string legend = LegendFor(info.repeats);
  const auto narrow = [&](const std::vector<MethodSummary>& methods) {
    const Table table = NarrowTable(methods, info.repeats);
    Explain(table, "", legend);
    return ToText(table);
  };
  std::string text =
      fmt::format("{}\n", info.title.empty() ? info.name : info.title);
  if (!summary.mean.methods.empty()) {
    text += fmt::format("{} ({})\n\n{}\n{}",
                        MeanTitle(summary, info),
                        BackendName(summary.problems.front().info.backend),
                        narrow(summary.mean.methods),
                        ToText(RatioTable(summary)));
    return text + Lines(legend);
  }
  for (const ProblemSummary& problem : summary.problems) {
    text += problem.info.name.empty() ? "" : "\n" + problem.info.name + "\n";
    text += fmt::format("{}\n{}\n{}",
                        Describe(problem),
                        narrow(problem.methods),
                        BestFound(problem));
  }
  return text + Lines(legend);
}

std::string BackendName(const std::string& backend) {
  if (backend == "simulator") {
    return "simulated cluster";
  }
  if (backend == "replay") {
    return "replayed measurements";
  }
  return backend.empty() ? "unknown backend" : "backend: " + backend;
}

}  // namespace plots
