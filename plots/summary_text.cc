#include "plots/summary_text.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

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

// The parts of a summary for one reader.
class Document {
 public:
  Document(const Summary& summary, const std::vector<ComparisonSet>& sets,
           const trials::ExperimentInfo& info, Reader reader)
      : summary_(summary), sets_(sets), info_(info), reader_(reader) {
    if (info.repeats != 1) {
      legend_ =
          "[95% intervals] are bootstrap intervals over repeats within the "
          "problems shown.";
    }
  }

  std::string Text() {
    std::string text =
        Heading("#", info_.title.empty() ? info_.name : info_.title);
    const std::string halves = Halves(info_);
    text += halves + (halves.empty() || terminal() ? "" : "\n");
    for (const MeanSummary& mean : summary_.means) {
      text += Heading(
          "##",
          MeanTitle(mean, info_) +
              (terminal()
                   ? fmt::format(
                         " ({})",
                         BackendName(summary_.problems.front().info.backend))
                   : ""));
      text += (terminal() ? "\n" : "") + Methods(mean.methods);
      text += Comparisons(mean.name) + "\n";
    }
    if (!summary_.means.empty()) {
      text += Render(RatioTable(summary_)) + (terminal() ? "" : "\n");
    }
    if (summary_.means.empty() || !terminal()) {
      for (const ProblemSummary& problem : summary_.problems) {
        text += Problem(problem);
      }
    }
    return text + Lines(legend_);
  }

 private:
  [[nodiscard]] bool terminal() const { return reader_ == Reader::kTerminal; }

  [[nodiscard]] std::string Heading(std::string_view level,
                                    const std::string& title) const {
    return terminal() ? title + "\n" : fmt::format("{} {}\n\n", level, title);
  }

  // The table; the meaning of each of its columns is added to the legend once.
  std::string Render(const Table& table) {
    for (const auto& [name, meaning] : table.meanings) {
      const std::string entry =
          fmt::format("{0}{1}{0}: {2}.", terminal() ? "" : "`", name, meaning);
      if (legend_.find(entry) == std::string::npos) {
        legend_ += (legend_.empty() ? "" : " ") + entry;
      }
    }
    return terminal() ? plots::ToText(table) : plots::ToMarkdown(table);
  }

  std::string Methods(const std::vector<MethodSummary>& methods) {
    return Render(
        MethodTable(methods, info_.repeats, ValuationOf(summary_), reader_));
  }

  // Comparisons with the reference at the end of the budget over one set of
  // problems.
  std::string Comparisons(std::string_view problems) {
    std::string text;
    for (const ComparisonSet& set : sets_) {
      if (set.checkpoint != kEnd || set.problems != problems) {
        continue;
      }
      for (const bool variants : {false, true}) {
        const Table table = ComparisonTable(set, variants);
        text += table.rows.empty() ? "" : "\n" + Render(table);
      }
      text += "\n" + Lines(Describe(set));
    }
    return text;
  }

  std::string Problem(const ProblemSummary& problem) {
    std::string text;
    if (!problem.info.name.empty()) {
      text += (terminal() ? "\n" : "") + Heading("##", problem.info.name);
    }
    text += Describe(problem) + "\n" + Methods(problem.methods);
    text += summary_.means.empty() ? Comparisons(problem.info.name) : "";
    if (terminal()) {
      return text + BestFound(problem);
    }
    const std::string nothing = NothingRan(problem);
    return text + "\n" +
           (nothing.empty() ? Render(ConfigTable(problem)) : nothing) + "\n";
  }

  const Summary& summary_;
  const std::vector<ComparisonSet>& sets_;
  const trials::ExperimentInfo& info_;
  Reader reader_;
  std::string legend_;
};

// A row of summary.csv.
struct CsvLine {
  MethodSummary method;
  trials::ProblemInfo info;
};

// A throughput is in the unit of the objective, which `per` names.
Fields FieldsIn(const std::string& per, const CsvLine& line) {
  const MethodSummary& s = line.method;
  Fields fields;
  fields.Add("problem", s.problem)
      .Add("method", s.method)
      .Add("label", s.label)
      .Add("family", s.family)
      .Add("repeats", s.repeats)
      .Add("runs", s.runs)
      .Add("finished", s.finished)
      .Add("throughput_median" + per, s.throughput.median)
      .Add("throughput_q1" + per, s.throughput.q1)
      .Add("throughput_q3" + per, s.throughput.q3)
      .Add("throughput_halfway" + per, s.throughput_halfway)
      .Add("ratio_mean", s.shares[kEnd].mean)
      .Add("ratio_median", s.shares[kEnd].median)
      .Add("ratio_q1", s.shares[kEnd].q1)
      .Add("ratio_q3", s.shares[kEnd].q3);
  for (std::size_t c = 0; c < kEnd; ++c) {
    const std::string after = "ratio_after_" + CheckpointName(c);
    fields.Add(after + "_mean", s.shares[c].mean)
        .Add(after + "_median", s.shares[c].median.value);
  }
  for (const auto& [percent, reach] :
       {std::pair("95", s.reach_95), {"99", s.reach_99}}) {
    fields.Add(fmt::format("time_to_{}_s", percent), reach.time_s)
        .Add(fmt::format("trials_to_{}", percent), reach.trials)
        .Add(fmt::format("runs_to_{}", percent), reach.runs);
  }
  return fields.Add("trials", s.trials)
      .Add("terminated_early", s.terminated_early)
      .Add("out_of_memory", s.out_of_memory)
      .Add("thinking_s_per_trial", s.thinking_s)
      .Add("best" + per, s.best_steps_per_s)
      .Add("best_config", s.best_config)
      .Add("optimum" + per, line.info.optimum_steps_per_s)
      .Add("optimum_config", line.info.optimum_config)
      .Add("backend", line.info.backend);
}

}  // namespace

std::string ToCsv(const Summary& summary) {
  std::vector<CsvLine> lines;
  for (const ProblemSummary& problem : summary.problems) {
    for (const MethodSummary& s : problem.methods) {
      lines.push_back({s, problem.info});
    }
  }
  for (const MeanSummary& mean : summary.means) {
    for (const MethodSummary& s : mean.methods) {
      lines.push_back({s, {}});
    }
  }
  return ValuationOf(summary).objective == trials::Objective::kMoney
             ? ToCsv(
                   lines,
                   +[](const CsvLine& line) {
                     return FieldsIn("_steps_per_usd", line);
                   })
             : ToCsv(
                   lines, +[](const CsvLine& line) {
                     return FieldsIn("_steps_per_s", line);
                   });
}

std::string ToMarkdown(const Summary& summary,
                       const std::vector<ComparisonSet>& comparisons,
                       const trials::ExperimentInfo& info) {
  return Document(summary, comparisons, info, Reader::kDocument).Text();
}

std::string ToText(const Summary& summary,
                   const std::vector<ComparisonSet>& comparisons,
                   const trials::ExperimentInfo& info) {
  return Document(summary, comparisons, info, Reader::kTerminal).Text();
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
