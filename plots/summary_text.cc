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
  std::string text = fmt::format(
      "{}{}", info.description.empty() ? "" : info.description + "; ",
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
    text += fmt::format(";\nexhaustive optimum, noise-free: {} {}: {}",
                        Rounded(info.optimum_steps_per_s, 4),
                        info.valuation().unit(), info.optimum_config);
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
      std::max_element(problem.methods.begin(), problem.methods.end(),
                       [](const MethodSummary& a, const MethodSummary& b) {
                         return std::isnan(a.best_steps_per_s) ||
                                a.best_steps_per_s < b.best_steps_per_s;
                       });
  if (best == problem.methods.end() || best->best_config.empty()) {
    return NothingRan(problem);
  }
  return fmt::format("best found, {}: {} {}: {} ({})\n",
                     best->best_is_exact ? "noise-free" : "measured",
                     Rounded(best->best_steps_per_s, 4),
                     problem.info.valuation().unit(), best->best_config,
                     best->label);
}

std::string Lines(const std::string& legend) {
  constexpr std::size_t kWidth = 116;
  return fmt::format("{}\n", fmt::join(Wrap(legend, kWidth), "\n"));
}

std::string MeanTitle(const MeanSummary& mean,
                      const trials::ExperimentInfo& info) {
  const std::string half =
      mean.name == "(mean)" ? "" : mean.name.substr(sizeof("(mean"));
  return fmt::format(
      "Mean over {} of {} problems{}, {} repeat{}", mean.problems.size(),
      info.problems.size(),
      half.empty() ? "" : ": " + half.substr(0, half.size() - 1) + " half",
      info.repeats, info.repeats == 1 ? "" : "s");
}

// Which problems are held out, if any; a line.
std::string Halves(const trials::ExperimentInfo& info) {
  if (!info.held_out.has_value()) {
    return "";
  }
  if (!RunsHeldOut(info)) {
    return fmt::format(
        "Development half: {} problems; {} held-out are left out.\n",
        info.problems.size(), info.held_out->size());
  }
  return fmt::format(
      "Held-out half, whose results must not be used to choose settings: {}.\n",
      fmt::join(*info.held_out, ", "));
}

// Comparisons with the reference at the end of the budget over one set of
// problems, with the text of their tables by `to_text`.
template <typename ToTextOf>
std::string Comparisons(const std::vector<ComparisonSet>& sets,
                        std::string_view problems, ToTextOf to_text) {
  std::string text;
  for (const ComparisonSet& set : sets) {
    if (set.checkpoint != kEnd || set.problems != problems) {
      continue;
    }
    for (const bool variants : {false, true}) {
      const Table table = ComparisonTable(set, variants);
      text += table.rows.empty() ? "" : "\n" + to_text(table);
    }
    text += "\n" + Lines(Describe(set));
  }
  return text;
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

std::string LegendFor(int repeats) {
  return repeats == 1 ? ""
                      : "[95% intervals] are bootstrap intervals over repeats "
                        "within the problems shown.";
}

}  // namespace

std::string ToMarkdown(const Summary& summary,
                       const std::vector<ComparisonSet>& comparisons,
                       const trials::ExperimentInfo& info) {
  std::string legend = LegendFor(info.repeats);
  const auto wide = [&](const std::vector<MethodSummary>& methods) {
    const Table table = WideTable(methods, info.repeats, ValuationOf(summary));
    Explain(table, "`", legend);
    return ToMarkdown(table);
  };
  const auto compared = [&](const std::string& problems) {
    return Comparisons(comparisons, problems, [&](const Table& table) {
      Explain(table, "`", legend);
      return ToMarkdown(table);
    });
  };
  std::string text =
      fmt::format("# {}\n\n", info.title.empty() ? info.name : info.title);
  const std::string halves = Halves(info);
  text += halves.empty() ? "" : halves + "\n";
  for (const MeanSummary& mean : summary.means) {
    text +=
        fmt::format("## {}\n\n{}", MeanTitle(mean, info), wide(mean.methods));
    text += compared(mean.name) + "\n";
  }
  if (!summary.means.empty()) {
    text += ToMarkdown(RatioTable(summary)) + "\n";
  }
  for (const ProblemSummary& problem : summary.problems) {
    if (!problem.info.name.empty()) {
      text += fmt::format("## {}\n\n", problem.info.name);
    }
    const std::string nothing = NothingRan(problem);
    text += Describe(problem) + "\n" + wide(problem.methods);
    text += summary.means.empty() ? compared(problem.info.name) : "";
    text += fmt::format(
        "\n{}\n", nothing.empty() ? ToMarkdown(ConfigTable(problem)) : nothing);
  }
  return text + Lines(legend);
}

std::string ToText(const Summary& summary,
                   const std::vector<ComparisonSet>& comparisons,
                   const trials::ExperimentInfo& info) {
  std::string legend = LegendFor(info.repeats);
  const auto narrow = [&](const std::vector<MethodSummary>& methods) {
    const Table table =
        NarrowTable(methods, info.repeats, ValuationOf(summary));
    Explain(table, "", legend);
    return ToText(table);
  };
  const auto compared = [&](const std::string& problems) {
    return Comparisons(comparisons, problems, [&](const Table& table) {
      Explain(table, "", legend);
      return ToText(table);
    });
  };
  std::string text =
      fmt::format("{}\n", info.title.empty() ? info.name : info.title);
  text += Halves(info);
  for (const MeanSummary& mean : summary.means) {
    text += fmt::format("{} ({})\n\n{}", MeanTitle(mean, info),
                        BackendName(summary.problems.front().info.backend),
                        narrow(mean.methods));
    text += compared(mean.name) + "\n";
  }
  if (!summary.means.empty()) {
    return text + ToText(RatioTable(summary)) + Lines(legend);
  }
  for (const ProblemSummary& problem : summary.problems) {
    text += problem.info.name.empty() ? "" : "\n" + problem.info.name + "\n";
    text += Describe(problem) + "\n" + narrow(problem.methods);
    text += compared(problem.info.name) + BestFound(problem);
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
