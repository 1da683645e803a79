#include "plots/report.h"

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "plots/experiment_records.h"
#include "plots/figures.h"
#include "plots/gnuplot.h"
#include "plots/gnuplot_process.h"
#include "plots/summary.h"
#include "plots/summary_text.h"
#include "trials/text.h"

namespace plots {
namespace {

namespace fs = std::filesystem;

// Through a temporary file and a rename: whoever looks at a running experiment
// never sees half a table.
void WriteFile(const fs::path& path,
               const std::string& content,
               ReportOutcome& outcome) {
  const fs::path temporary = path.string() + ".part";
  std::ofstream out(temporary, std::ios::binary);
  out << content;
  out.close();
  if (!out) {
    throw trials::InputError(
        fmt::format("{}: cannot be written", temporary.string()));
  }
  fs::rename(temporary, path);
  outcome.files.push_back(path);
}

void CheckNames(const std::vector<std::string>& names,
                const std::vector<std::string>& known,
                const char* what) {
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw trials::InputError(fmt::format("unknown {} '{}'{}; known are {}",
                                           what,
                                           name,
                                           trials::DidYouMean(name, known),
                                           fmt::join(known, ", ")));
    }
  }
}

// Writes data and script of one figure; adds the script to the job.
void WriteFigure(const Figure& figure,
                 const std::vector<std::string>& formats,
                 GnuplotJob& job,
                 ReportOutcome& outcome) {
  fs::create_directories(job.folder);
  for (std::size_t i = 0; i < figure.panels.size(); ++i) {
    WriteFile(job.folder / DataFileName(figure, i),
              DataCsv(figure.panels[i]),
              outcome);
  }
  const std::string script = figure.name + ".gp";
  WriteFile(job.folder / script, Script(figure, formats), outcome);
  job.scripts.push_back(script);
}

void Draw(const std::vector<GnuplotJob>& jobs,
          const std::vector<std::string>& formats,
          ReportOutcome& outcome) {
  const std::string error = RunGnuplot(jobs);
  if (!error.empty()) {
    outcome.notes.push_back(error);
    outcome.pictures_failed = true;
    return;
  }
  for (const GnuplotJob& job : jobs) {
    for (const std::string& script : job.scripts) {
      for (const std::string& format : formats) {
        outcome.files.push_back(job.folder /
                                fs::path(script).replace_extension(format));
      }
    }
  }
}

void WriteFigures(const fs::path& folder,
                  const ExperimentRecords& records,
                  const std::vector<std::string>& names,
                  const ReportOptions& options,
                  ReportOutcome& outcome) {
  const FigureOptions figure_options{
      .training_hours = options.training_hours,
      .value = options.exact ? Value::kExact : Value::kMeasured};
  // A script without a format would draw nothing.
  const std::vector<std::string> script_formats =
      options.formats.empty() ? ReportOptions{}.formats : options.formats;
  const fs::path figures = folder / "figures";
  std::vector<GnuplotJob> jobs;
  const auto add = [&](GnuplotJob& job, const std::optional<Figure>& figure) {
    if (figure) {
      WriteFigure(*figure, script_formats, job, outcome);
    }
  };
  for (const ProblemRecords& problem : records.problems) {
    GnuplotJob job{.folder = trials::ProblemFolder(figures, problem.info.name)};
    for (const std::string& name : names) {
      if (name != "overview") {
        add(job, MakeFigure(name, records, problem, figure_options));
      }
    }
    jobs.push_back(std::move(job));
  }
  if (std::find(names.begin(), names.end(), "overview") != names.end()) {
    GnuplotJob job{.folder = figures};
    add(job, MakeOverview(records));
    jobs.push_back(std::move(job));
  }
  std::erase_if(jobs, [](const auto& job) { return job.scripts.empty(); });
  if (!options.formats.empty()) {
    Draw(jobs, options.formats, outcome);
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
    throw trials::InputError(fmt::format(
        "{} hours of training: must be positive", options.training_hours));
  }
  ExperimentRecords records = LoadExperiment(experiment_folder);
  CheckNames(records.info.figures,
             FigureNames(),
             (experiment_folder / "experiment.json: figure").c_str());

  ReportOutcome outcome{.notes = std::move(records.notes)};
  const Summary summary = Summarise(records);
  outcome.summary = ToText(summary, records.info);
  WriteFile(experiment_folder / "summary.csv", ToCsv(summary), outcome);
  WriteFile(experiment_folder / "summary.md",
            ToMarkdown(summary, records.info),
            outcome);

  const std::vector<std::string>& names =
      !options.figures.empty()        ? options.figures
      : !records.info.figures.empty() ? records.info.figures
                                      : FigureNames();
  WriteFigures(experiment_folder, records, names, options, outcome);
  return outcome;
}

}  // namespace plots
