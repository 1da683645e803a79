#include "plots/report.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "common/quantiles.h"
#include "common/ranges.h"
#include "common/statistics.h"
#include "common/text.h"
#include "plots/comparison.h"
#include "plots/curve.h"
#include "plots/experiment_records.h"
#include "plots/figure_files.h"
#include "plots/figures/figures.h"
#include "plots/pareto.h"
#include "plots/summary.h"

namespace plots {
namespace {

namespace fs = std::filesystem;

void WriteTable(const fs::path& path, const std::string& content,
                ReportOutcome& outcome) {
  WriteTextFile(path, content);
  outcome.files.push_back(path);
}

// The names of problems and methods are folders of the experiment's.
void CheckFolders(const fs::path& experiment_json,
                  const trials::ExperimentInfo& info) {
  const auto check = [&](const char* what, const std::string& name) {
    if (name.find('/') != std::string::npos || name == "." || name == "..") {
      throw common::InputError(
          fmt::format("{}: {} '{}': must be the name of a folder, without '/'",
                      experiment_json.string(), what, name));
    }
  };
  for (const std::string& problem : info.problems) {
    check("problem", problem);
  }
  for (const trials::ExperimentInfo::Method& method : info.methods) {
    check("method", method.name);
  }
}

// What a method said was left to gain after its last trials, and the truth
// where the optimum is known.
struct Gains {
  std::vector<double> said;
  std::vector<double> said_within_5;
  std::vector<double> real;
  std::vector<double> real_within_5;

  void Add(const std::vector<Run>& runs, const trials::ProblemInfo& problem) {
    const std::vector<RunShare> shares = RunSharesOf(runs, problem);
    for (std::size_t r = 0; r < runs.size(); ++r) {
      const auto last =
          runs[r].remaining.find(static_cast<int>(runs[r].trials.size()));
      if (!runs[r].finished || last == runs[r].remaining.end()) {
        continue;
      }
      said.push_back(last->second.expected_gain);
      said_within_5.push_back(last->second.p_within_5);
      if (!shares.empty()) {
        const double share = shares[r].at[kEnd];
        real.push_back(TrueGain(share));
        real_within_5.push_back(IsWithin5(share) ? 1.0 : 0.0);
      }
    }
  }
};

// Over all finished runs of each method that says it.
Table RemainingTable(const ExperimentRecords& records) {
  const auto median = [](const std::vector<double>& values) {
    return values.empty() ? trials::kUnknown
                          : common::ComputeQuartiles(values).median;
  };
  Table table;
  for (std::size_t m = 0; m < records.info.methods.size(); ++m) {
    Gains gains;
    for (const ProblemRecords& problem : records.problems) {
      gains.Add(problem.methods[m].runs, problem.info);
    }
    if (!gains.said.empty()) {
      table.Add(
          {{"left to gain after the last trial", records.info.methods[m].label},
           {"runs", gains.said.size()},
           {"said, median (%)", Rounded(median(gains.said), 2, 100.0)},
           {"true, median (%)", Rounded(median(gains.real), 2, 100.0)},
           {"within 5%: said (%)",
            Fixed(median(gains.said_within_5), 0, 100.0)},
           {"true (%)", Fixed(gains.real_within_5.empty()
                                  ? trials::kUnknown
                                  : common::Mean(gains.real_within_5),
                              0, 100.0)}});
    }
  }
  table.HideEmpty();
  return table;
}

// Notes the figures without data unless they are all that exist.
void AddFigures(const fs::path& folder, const ExperimentRecords& records,
                const ReportOptions& options, ReportOutcome& outcome) {
  const std::vector<std::string>& named =
      options.figures.empty() ? records.info.figures : options.figures;
  const std::vector<std::string>& names = named.empty() ? FigureNames() : named;
  std::vector<FigureFolder> folders;
  std::set<std::string_view> drawn;
  const auto add = [&](const fs::path& of, const ProblemRecords* problem) {
    folders.push_back({of, {}});
    for (const std::string& name : names) {
      for (const FigureKind& kind : Figures()) {
        auto figure = kind.name == name ? MakeFigure(kind, records, problem)
                                        : std::nullopt;
        if (figure) {
          drawn.insert(kind.name);
          std::ranges::move(InParts(*std::move(figure)),
                            std::back_inserter(folders.back().figures));
        }
      }
    }
  };
  for (const ProblemRecords& problem : records.problems) {
    add(trials::ProblemFolder(folder, problem.info.name), &problem);
  }
  add(folder, nullptr);
  for (const FigureKind& kind : Figures()) {
    if (common::Contains(named, kind.name) && !drawn.contains(kind.name)) {
      outcome.notes.push_back(fmt::format(
          "figure '{}' is not drawn: it needs {}", kind.name, kind.needs.text));
    }
  }
  FigureFiles written = WriteFigures(folders, options.formats);
  outcome.files.insert(outcome.files.end(), written.files.begin(),
                       written.files.end());
  if (!written.error.empty()) {
    outcome.failures.push_back(written.error);
  }
}

}  // namespace

const std::vector<std::string>& FigureNames() {
  static const std::vector<std::string> names =
      common::NamesIn(Figures(), &FigureKind::name);
  return names;
}

ReportOutcome Report(const std::filesystem::path& experiment_folder,
                     const ReportOptions& options) {
  common::RequireKnown(options.figures, FigureNames(), "figure");
  common::RequireKnown(options.formats, ReportOptions{}.formats, "format");
  const fs::path experiment_json = experiment_folder / "experiment.json";
  ExperimentRecords records = LoadExperiment(experiment_folder);
  CheckFolders(experiment_json, records.info);
  if (!options.reference.empty()) {
    common::RequireKnown(options.reference,
                         common::NamesIn(records.info.methods,
                                         &trials::ExperimentInfo::Method::name),
                         "method");
  }
  common::RequireKnown(records.info.figures, FigureNames(),
                       experiment_json.string() + ": figure");

  ReportOutcome outcome{.notes = std::move(records.notes),
                        .failures = std::move(records.failures)};
  common::RemoveAbandoned(experiment_folder);
  const Summary summary = Summarize(records);
  const std::vector<ComparisonSet> comparisons = Compare(
      summary, options.reference.empty() ? DefaultReference(records.problems)
                                         : options.reference);
  const Table pareto = ParetoTable(records.problems);
  const auto text = [&](Form form) {
    std::string all = ToText(summary, comparisons, records.info, form);
    if (form == Form::kTerminal) {
      const Table remaining = RemainingTable(records);
      all += remaining.rows.empty() ? "" : "\n" + ToText(remaining);
    }
    if (!pareto.rows.empty()) {
      const bool terminal = form == Form::kTerminal;
      all += fmt::format("\n{}{}\n\n{}", terminal ? "" : "## ",
                         trials::kCost.title,
                         terminal ? ToText(pareto) : ToMarkdown(pareto));
    }
    return all;
  };
  outcome.summary = text(Form::kTerminal);
  WriteTable(experiment_folder / "summary.csv", ToCsv(summary), outcome);
  WriteTable(experiment_folder / "comparison.csv", ToCsv(comparisons), outcome);
  if (!pareto.rows.empty()) {
    WriteTable(experiment_folder / "pareto.csv", ToCsv(pareto), outcome);
  }
  WriteTable(experiment_folder / "summary.md", text(Form::kMarkdown), outcome);

  AddFigures(experiment_folder / "figures", records, options, outcome);
  return outcome;
}

}  // namespace plots
