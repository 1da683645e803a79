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
  if (info.optimum_steps_per_s > 0.0) {
    text += fmt::format(";\nexhaustive optimum {} steps/s: {}",
                        Rounded(info.optimum_steps_per_s, 4),
                        info.optimum_config);
  }
  return text + "\n";
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
    return "";
  }
  return fmt::format("best found {} steps/s: {} ({})\n",
                     Rounded(best->best_steps_per_s, 4),
                     best->best_config,
                     best->label);
}

std::string MeanTitle(const Summary& summary,
                      const trials::ExperimentInfo& info) {
  return fmt::format(
      "Mean over {} of {} problems of the median over {} repeat{}",
      summary.mean.problems,
      info.problems.size(),
      info.repeats,
      info.repeats == 1 ? "" : "s");
}

constexpr std::string_view kLegend =
    "Median [quartiles] over repeats. `of optimum`: noise-free throughput of "
    "the configuration returned\nover that of the best of all; `after 10`: the "
    "same after 10 trials. `95%`: minutes and trials until it\nreaches 95% of "
    "the optimum, `-` unless more than half of the runs do, and how many do. "
    "`PCs`: trials;\n`early`: terminated early; `OOM`: out of memory; `think`: "
    "the method's own time per suggestion. A run\nwithout a completed trial "
    "counts as 0 steps/s. `runs` reads 7/10 while only 7 of 10 are finished.\n";

constexpr std::string_view kNarrowLegend =
    "median [quartiles] over repeats; of optimum: noise-free throughput of the "
    "configuration returned over the best of\nall, at 10, 20: the same after "
    "so "
    "many trials; to 95%: minutes/trials to reach it (runs that do), - unless "
    "more than\nhalf do; PCs: tried/terminated early/out of memory; think: the "
    "method's own time per suggestion\n";

}  // namespace

std::string ToMarkdown(const Summary& summary,
                       const trials::ExperimentInfo& info) {
  std::string text =
      fmt::format("# {}\n\n", info.title.empty() ? info.name : info.title);
  if (!summary.mean.methods.empty()) {
    text += fmt::format("## {}\n\n{}\n{}\n",
                        MeanTitle(summary, info),
                        ToMarkdown(WideTable(summary.mean.methods)),
                        ToMarkdown(RatioTable(summary)));
  }
  for (const ProblemSummary& problem : summary.problems) {
    if (!problem.info.name.empty()) {
      text += fmt::format("## {}\n\n", problem.info.name);
    }
    text += fmt::format("{}\n{}\n{}\n",
                        Describe(problem),
                        ToMarkdown(WideTable(problem.methods)),
                        ToMarkdown(ConfigTable(problem)));
  }
  return text + std::string(kLegend);
}

std::string ToText(const Summary& summary, const trials::ExperimentInfo& info) {
  std::string text =
      fmt::format("{}\n", info.title.empty() ? info.name : info.title);
  if (!summary.mean.methods.empty()) {
    return text +
           fmt::format("{} ({})\n\n{}\n{}",
                       MeanTitle(summary, info),
                       BackendName(summary.problems.front().info.backend),
                       ToText(NarrowTable(summary.mean.methods)),
                       ToText(RatioTable(summary))) +
           std::string(kNarrowLegend);
  }
  for (const ProblemSummary& problem : summary.problems) {
    text += problem.info.name.empty() ? "" : "\n" + problem.info.name + "\n";
    text += fmt::format("{}\n{}\n{}",
                        Describe(problem),
                        ToText(NarrowTable(problem.methods)),
                        BestFound(problem));
  }
  return text + std::string(kNarrowLegend);
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
