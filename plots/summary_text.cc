#include "plots/summary_text.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "plots/table.h"
#include "trials/text.h"

namespace plots {
namespace {

// Three significant digits without an exponent; "" for unknown, "-" for never.
std::string Rounded(double value, int digits = 3) {
  if (std::isnan(value)) {
    return "";
  }
  if (std::isinf(value)) {
    return "-";
  }
  const int before =
      value == 0.0 ? 1 : static_cast<int>(std::floor(std::log10(value))) + 1;
  return fmt::format("{:.{}f}", value, std::clamp(digits - before, 0, 6));
}

std::string WithQuartiles(const Quartiles& q, double scale, int decimals) {
  if (std::isnan(q.median)) {
    return "";
  }
  return fmt::format("{:.{}f} [{:.{}f}, {:.{}f}]",
                     scale * q.median,
                     decimals,
                     scale * q.q1,
                     decimals,
                     scale * q.q3,
                     decimals);
}

std::string Percent(double ratio) {
  return std::isnan(ratio) ? "" : fmt::format("{:.1f}", 100.0 * ratio);
}

// "3.2 / 8 (10)": minutes, trials, runs.
std::string ReachText(const Reach& reach) {
  if (std::isnan(reach.time_s)) {
    return "";
  }
  return fmt::format("{} / {} ({})",
                     Rounded(reach.time_s / 60.0, 2),
                     Rounded(reach.trials, 2),
                     reach.runs);
}

std::string Runs(const MethodSummary& s) {
  return s.finished == s.repeats ? std::to_string(s.runs)
                                 : fmt::format("{}/{}", s.finished, s.repeats);
}

// Decimals that give the smallest median three significant digits.
int Decimals(const std::vector<MethodSummary>& methods) {
  double smallest = std::numeric_limits<double>::infinity();
  for (const MethodSummary& s : methods) {
    if (s.throughput.median > 0.0) {
      smallest = std::min(smallest, s.throughput.median);
    }
  }
  return std::isinf(smallest)
             ? 3
             : std::clamp(
                   2 - static_cast<int>(std::floor(std::log10(smallest))),
                   0,
                   6);
}

using Cell = std::function<std::string(const MethodSummary&)>;

// One row per method; a column that is empty throughout is left out.
Table MethodTable(const std::vector<MethodSummary>& methods) {
  const int decimals = Decimals(methods);
  const std::vector<std::pair<std::string_view, Cell>> columns = {
      {"method", [](const auto& s) { return s.label; }},
      {"runs", Runs},
      {"throughput (steps/s)",
       [&](const auto& s) {
         return WithQuartiles(s.throughput, 1.0, decimals);
       }},
      {"of optimum (%)",
       [](const auto& s) { return WithQuartiles(s.ratio, 100.0, 1); }},
      {"after 10", [](const auto& s) { return Percent(s.ratio_after_10); }},
      {"after 20", [](const auto& s) { return Percent(s.ratio_after_20); }},
      {"95%: min / PCs (runs)",
       [](const auto& s) { return ReachText(s.reach_95); }},
      {"99%: min / PCs (runs)",
       [](const auto& s) { return ReachText(s.reach_99); }},
      {"PCs", [](const auto& s) { return Rounded(s.trials, 2); }},
      {"early", [](const auto& s) { return Rounded(s.terminated_early, 2); }},
      {"OOM", [](const auto& s) { return Rounded(s.out_of_memory, 2); }},
      {"think (ms)",
       [](const auto& s) { return Rounded(1e3 * s.thinking_s, 2); }},
  };
  Table table;
  table.rows.resize(methods.size());
  for (const auto& [header, cell] : columns) {
    std::vector<std::string> cells;
    std::transform(
        methods.begin(), methods.end(), std::back_inserter(cells), cell);
    if (std::all_of(cells.begin(), cells.end(), [](const std::string& text) {
          return text.empty();
        })) {
      continue;
    }
    table.header.emplace_back(header);
    for (std::size_t r = 0; r < cells.size(); ++r) {
      table.rows[r].push_back(std::move(cells[r]));
    }
  }
  return table;
}

// Problems down, methods across: the median ratio to the optimum.
Table RatioTable(const Summary& summary) {
  Table table;
  table.header = {"of optimum (%)"};
  for (const MethodSummary& s : summary.problems.front().methods) {
    table.header.push_back(s.label);
  }
  for (const ProblemSummary& problem : summary.problems) {
    std::vector<std::string>& row = table.rows.emplace_back();
    row.push_back(problem.info.name);
    for (const MethodSummary& s : problem.methods) {
      row.push_back(Percent(s.ratio.median));
    }
  }
  return table;
}

// The optimum, and what the methods returned at best.
Table ConfigTable(const ProblemSummary& problem) {
  Table table{.header = {"best configuration", "steps/s", "PC"},
              .last_is_name = true};
  if (problem.info.optimum_steps_per_s > 0.0) {
    table.rows.push_back({"exhaustive optimum",
                          Rounded(problem.info.optimum_steps_per_s, 4),
                          problem.info.optimum_config});
  }
  for (const MethodSummary& s : problem.methods) {
    if (!s.best_config.empty()) {
      table.rows.push_back(
          {s.label, Rounded(s.best_steps_per_s, 4), s.best_config});
    }
  }
  return table;
}

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

std::vector<std::string> CsvCells(const MethodSummary& s,
                                  const trials::ProblemInfo& info) {
  using trials::ExactText;
  return {s.problem,
          s.method,
          s.label,
          std::to_string(s.repeats),
          std::to_string(s.runs),
          std::to_string(s.finished),
          ExactText(s.throughput.median),
          ExactText(s.throughput.q1),
          ExactText(s.throughput.q3),
          ExactText(s.ratio.median),
          ExactText(s.ratio.q1),
          ExactText(s.ratio.q3),
          ExactText(s.ratio_after_10),
          ExactText(s.ratio_after_20),
          ExactText(s.reach_95.time_s),
          ExactText(s.reach_95.trials),
          std::to_string(s.reach_95.runs),
          ExactText(s.reach_99.time_s),
          ExactText(s.reach_99.trials),
          std::to_string(s.reach_99.runs),
          ExactText(s.trials),
          ExactText(s.terminated_early),
          ExactText(s.out_of_memory),
          ExactText(s.thinking_s),
          ExactText(s.best_steps_per_s),
          s.best_config,
          ExactText(info.optimum_steps_per_s),
          info.optimum_config,
          info.backend};
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
    "the optimum, `-` where fewer than half of the runs do, and how many do. "
    "`PCs`: trials;\n`early`: terminated early; `OOM`: out of memory; `think`: "
    "the method's own time per suggestion. A run\nwithout a completed trial "
    "counts as 0 steps/s. `runs` reads 7/10 while only 7 of 10 are finished.\n";

}  // namespace

std::string ToCsv(const Summary& summary) {
  std::string text =
      "problem,method,label,repeats,runs,finished,"
      "throughput_median_steps_per_s,throughput_q1_steps_per_s,"
      "throughput_q3_steps_per_s,ratio_median,ratio_q1,ratio_q3,"
      "ratio_after_10,ratio_after_20,"
      "time_to_95_s,trials_to_95,runs_to_95,"
      "time_to_99_s,trials_to_99,runs_to_99,"
      "trials,terminated_early,out_of_memory,thinking_s_per_trial,"
      "best_steps_per_s,best_config,optimum_steps_per_s,optimum_config,"
      "backend\n";
  for (const ProblemSummary& problem : summary.problems) {
    for (const MethodSummary& s : problem.methods) {
      text += CsvRow(CsvCells(s, problem.info));
    }
  }
  for (const MethodSummary& s : summary.mean.methods) {
    text += CsvRow(CsvCells(s, {}));
  }
  return text;
}

std::string ToMarkdown(const Summary& summary,
                       const trials::ExperimentInfo& info) {
  std::string text =
      fmt::format("# {}\n\n", info.title.empty() ? info.name : info.title);
  if (!summary.mean.methods.empty()) {
    text += fmt::format("## {}\n\n{}\n{}\n",
                        MeanTitle(summary, info),
                        ToMarkdown(MethodTable(summary.mean.methods)),
                        ToMarkdown(RatioTable(summary)));
  }
  for (const ProblemSummary& problem : summary.problems) {
    if (!problem.info.name.empty()) {
      text += fmt::format("## {}\n\n", problem.info.name);
    }
    text += fmt::format("{}\n{}\n{}\n",
                        Describe(problem),
                        ToMarkdown(MethodTable(problem.methods)),
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
                       ToText(MethodTable(summary.mean.methods)),
                       ToText(RatioTable(summary)));
  }
  for (const ProblemSummary& problem : summary.problems) {
    text += problem.info.name.empty() ? "" : "\n" + problem.info.name + "\n";
    text += fmt::format("{}\n{}\n{}",
                        Describe(problem),
                        ToText(MethodTable(problem.methods)),
                        BestFound(problem));
  }
  return text;
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
