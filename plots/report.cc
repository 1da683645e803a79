#include "plots/report.h"

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "common/error.h"
#include "common/text.h"
#include "plots/experiment_records.h"
#include "plots/figure_files.h"
#include "plots/figures.h"
#include "plots/summary.h"
#include "plots/summary_text.h"

namespace plots {
namespace {

namespace fs = std::filesystem;

void WriteTable(const fs::path& path,
                const std::string& content,
                ReportOutcome& outcome) {
  WriteTextFile(path, content);
  outcome.files.push_back(path);
}

void CheckNames(const std::vector<std::string>& names,
                const std::vector<std::string>& known,
                const char* what) {
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw common::InputError(fmt::format("unknown {} '{}'{}; known are {}",
                                           what,
                                           name,
                                           common::DidYouMean(name, known),
                                           fmt::join(known, ", ")));
    }
  }
}

void Append(std::optional<Figure> figure, FigureFolder& folder) {
  if (figure) {
    folder.figures.push_back(*std::move(figure));
  }
}

void AddFigures(const fs::path& folder,
                const ExperimentRecords& records,
                const std::vector<std::string>& names,
                const ReportOptions& options,
                ReportOutcome& outcome) {
  const FigureOptions figure_options{
      .training_hours = options.training_hours,
      .value = options.exact ? Value::kExact : Value::kMeasured};
  const fs::path figures = folder / "figures";
  std::vector<FigureFolder> folders;
  for (const ProblemRecords& problem : records.problems) {
    FigureFolder& of_problem = folders.emplace_back();
    of_problem.folder = trials::ProblemFolder(figures, problem.info.name);
    for (const std::string& name : names) {
      if (name != "overview") {
        Append(MakeFigure(name, records, problem, figure_options), of_problem);
      }
    }
  }
  if (std::find(names.begin(), names.end(), "overview") != names.end()) {
    FigureFolder& over_all = folders.emplace_back();
    over_all.folder = figures;
    Append(MakeOverview(records), over_all);
  }
  FigureFiles written = WriteFigures(folders, options.formats);
  outcome.files.insert(
      outcome.files.end(), written.files.begin(), written.files.end());
  if (!written.error.empty()) {
    outcome.notes.push_back(written.error);
    outcome.pictures_failed = true;
  }
}

}  // namespace

const std::vector<std::string>& FigureNames() {
  static const std::vector<std::string> names = {"throughput-time",
                                                 "throughput-trials",
                                                 "throughput-steps",
                                                 "trials-time",
                                                 "training-steps",
                                                 "ablation",
                                                 "ablation-views",
                                                 "thinking",
                                                 "overview"};
  return names;
}

ReportOutcome Report(const std::filesystem::path& experiment_folder,
                     const ReportOptions& options) {
  CheckNames(options.figures, FigureNames(), "figure");
  CheckNames(options.formats, ReportOptions{}.formats, "format");
  if (!(options.training_hours > 0.0)) {
    throw common::InputError(fmt::format(
        "{} hours of training: must be positive", options.training_hours));
  }
  ExperimentRecords records = LoadExperiment(experiment_folder);
  CheckNames(records.info.figures,
             FigureNames(),
             (experiment_folder / "experiment.json: figure").c_str());

  ReportOutcome outcome{.notes = std::move(records.notes),
                        .failures = std::move(records.failures)};
  const Summary summary = Summarise(records);
  outcome.summary = ToText(summary, records.info);
  WriteTable(experiment_folder / "summary.csv", ToCsv(summary), outcome);
  WriteTable(experiment_folder / "summary.md",
             ToMarkdown(summary, records.info),
             outcome);

  const std::vector<std::string>& names =
      !options.figures.empty()        ? options.figures
      : !records.info.figures.empty() ? records.info.figures
                                      : FigureNames();
  AddFigures(experiment_folder, records, names, options, outcome);
  return outcome;
}

}  // namespace plots
