#include "plots/report.h"

#include <utility>

#include <fmt/format.h>

#include "common/quantiles.h"
#include "common/text.h"
#include "plots/comparison.h"
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

// "remaining after the last trial, OPPA, ...: expected gain ...": medians over
// all finished runs, one line for each method that estimates it.
std::string RemainingLines(const ExperimentRecords& records) {
  std::string text;
  for (std::size_t m = 0; m < records.info.methods.size(); ++m) {
    std::vector<double> gains;
    std::vector<double> within_5;
    for (const ProblemRecords& problem : records.problems) {
      for (const Run& run : problem.methods[m].runs) {
        const auto last =
            run.remaining.find(static_cast<int>(run.trials.size()));
        if (run.finished && last != run.remaining.end()) {
          gains.push_back(last->second.expected_gain);
          within_5.push_back(last->second.p_within_5);
        }
      }
    }
    if (!gains.empty()) {
      const std::size_t runs = gains.size();
      text += fmt::format(
          "remaining after the last trial, {}, median of {} runs: {}\n",
          records.info.methods[m].label, runs,
          RemainingText(
              {.expected_gain = common::ComputeQuartiles(gains).median,
               .p_within_5 = common::ComputeQuartiles(within_5).median}));
    }
  }
  return text;
}

void AddFigures(const fs::path& folder, const ExperimentRecords& records,
                const std::vector<std::string>& names,
                const ReportOptions& options, ReportOutcome& outcome) {
  std::vector<FigureFolder> folders;
  const auto add = [&](const fs::path& of, const ProblemRecords* problem) {
    folders.push_back({of, {}});
    for (const std::string& name : names) {
      for (const FigureKind& kind : Figures()) {
        auto figure = kind.name == name ? MakeFigure(kind, records, problem)
                                        : std::nullopt;
        if (figure) {
          folders.back().figures.push_back(*std::move(figure));
        }
      }
    }
  };
  for (const ProblemRecords& problem : records.problems) {
    add(trials::ProblemFolder(folder, problem.info.name), &problem);
  }
  add(folder, nullptr);
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
  const Summary summary = Summarize(records);
  const std::vector<ComparisonSet> comparisons = Compare(
      summary, options.reference.empty() ? DefaultReference(records.problems)
                                         : options.reference);
  const Table pareto = ParetoTable(records.problems);
  const auto text = [&](Form form) {
    std::string all = ToText(summary, comparisons, records.info, form);
    if (form == Form::kTerminal) {
      all += RemainingLines(records);
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

  const std::vector<std::string>& names =
      !options.figures.empty()        ? options.figures
      : !records.info.figures.empty() ? records.info.figures
                                      : FigureNames();
  AddFigures(experiment_folder / "figures", records, names, options, outcome);
  return outcome;
}

}  // namespace plots
