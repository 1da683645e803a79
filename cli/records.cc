// status, check, import, report.

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/run.h"
#include "cli/verb_options.h"
#include "common/text.h"
#include "harness/check.h"
#include "harness/experiment.h"
#include "harness/records/import.h"
#include "harness/slurm/task_status.h"
#include "harness/status.h"
#include "harness/testbeds/testbeds.h"
#include "plots/experiment_records.h"
#include "plots/figure_files.h"
#include "plots/figures/figures.h"
#include "plots/report.h"

namespace cli {

int PrintFailures(const std::vector<std::string>& failures) {
  for (const std::string& failure : failures) {
    fmt::print(stderr, "oppa: {}\n", failure);
  }
  return failures.empty() ? 0 : 1;
}

void PrintNotes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) {
    fmt::print("note: {}\n", note);
  }
}

int PrintReport(const std::filesystem::path& folder,
                const plots::ReportOptions& options) {
  const plots::ReportOutcome outcome = plots::Report(folder, options);
  fmt::print("{}", outcome.summary);
  PrintNotes(outcome.notes);
  fmt::print("{} files in {}\n", outcome.files.size(), folder.string());
  return PrintFailures(outcome.failures);
}

namespace {

// Prints what is wrong with damaged runs. Returns the exit code.
int PrintDamage(const std::vector<harness::RunStatus>& runs) {
  std::vector<std::string> damage;
  for (const harness::RunStatus& status : runs) {
    if (status.state == harness::RunState::kDamaged) {
      damage.push_back(status.message);
    }
  }
  return PrintFailures(damage);
}

int Status(const VerbOptions& options, bool all) {
  const harness::Experiment experiment = OpenExperiment(options);
  std::vector<harness::RunStatus> runs = harness::ReadStatus(experiment);
  harness::AddQueue(experiment, runs);
  if (options.json) {
    fmt::print("{}", harness::StatusJson(experiment.manifest, runs));
    return PrintDamage(runs);
  }
  if (all) {
    fmt::print("{}\n", harness::FormatRuns(runs));
  }
  fmt::print("{}", harness::FormatStatus(experiment.manifest, runs));
  return PrintDamage(runs);
}

int Import(const VerbOptions& options) {
  const harness::Experiment experiment = OpenExperiment(options);
  harness::CheckManifest(experiment);
  PrintNotes(harness::ImportTrials(experiment, options.imports));
  return 0;
}

struct ReportVerbOptions {
  plots::ReportOptions report;
  Words with;  // manifests
};

// Draws the figures of several experiments as one, below results/joint.
int ReportTogether(const VerbOptions& options, const ReportVerbOptions& own) {
  common::RequireKnown(own.report.figures, plots::FigureNames(), "figure");
  std::vector<plots::ExperimentRecords> experiments;
  std::string names;
  Words failures;
  Words manifests = {options.manifest};
  manifests.insert(manifests.end(), own.with.begin(), own.with.end());
  for (const std::string& path : manifests) {
    VerbOptions each = options;
    each.manifest = path;
    const harness::Experiment experiment = OpenExperiment(each);
    experiments.push_back(plots::LoadExperiment(experiment.folder));
    names += (names.empty() ? "" : "+") + experiment.manifest.name;
    PrintNotes(experiments.back().notes);
    failures.insert(failures.end(), experiments.back().failures.begin(),
                    experiments.back().failures.end());
  }
  const std::filesystem::path folder = options.results / "joint" / names;
  const plots::FigureFiles written = plots::WriteFigures(
      {{folder, plots::JointFigures(experiments, own.report.figures)}},
      own.report.formats);
  fmt::print("{} files in {}\n", written.files.size(), folder.string());
  if (!written.error.empty()) {
    failures.push_back(written.error);
  }
  return PrintFailures(failures);
}

int Report(const VerbOptions& options, const ReportVerbOptions& own) {
  if (!own.with.empty()) {
    return ReportTogether(options, own);
  }
  return PrintReport(OpenExperiment(options).folder, own.report);
}

Verb DefineStatus() {
  const auto all = std::make_shared<Bound<bool>>();
  return {.group = kExperiments,
          .name = "status",
          .summary = "show the progress of each run",
          .options = RecordOptions(all->verb) +
                     Options{Bind("--all", "list every run", all->own),
                             JsonFlag(all->verb)},
          .examples = {"oppa status experiments/smoke.toml --all"},
          .run = [all](const Words&) { return Status(all->verb, all->own); }};
}

int Check(const std::filesystem::path& results) {
  const harness::CheckSummary summary = harness::CheckRecordsBelow(results);
  PrintNotes(summary.notes);
  fmt::print("{}: {} finished runs are whole, {} are unfinished",
             results.string(), summary.finished, summary.unfinished);
  if (summary.unsealed > 0) {
    fmt::print(", {} were finished by a version without seals",
               summary.unsealed);
  }
  fmt::print("; {} damaged\n", summary.damage.size());
  return PrintFailures(summary.damage);
}

Verb DefineCheck() {
  const auto options = std::make_shared<VerbOptions>();
  return {.group = kExperiments,
          .name = "check",
          .summary = "check that no record was lost, damaged or exchanged",
          .description =
              "Reads every run below FOLDER (default: results) and compares "
              "the files of finished runs with their seals. Changes nothing.",
          .options = {Bind("FOLDER", "results, or a part of them",
                           options->results)},
          .examples = {"oppa check results"},
          .run = [options](const Words&) { return Check(options->results); }};
}

Verb DefineImport() {
  const auto all = std::make_shared<Bound<Words>>();
  Option tables = Required(
      MakeOption("CSV",
                 "tables with a column per parameter, step_time_s or a "
                 "throughput, peak_memory_gb and outcome",
                 [all](const std::string& text) {
                   all->verb.imports.emplace_back(text);
                 }));
  tables.repeated = true;
  return {.group = kExperiments,
          .name = "import",
          .summary = "add trials that were measured elsewhere to a search",
          .description =
              "Every run of the experiment gets the trials as observations, so "
              "that they are not measured again. Continue with `oppa run`.",
          .options = {ManifestArgument(all->verb), tables,
                      ResultsOption(all->verb), SetOption(all->verb)},
          .examples = {"oppa import tune.toml earlier.csv"},
          .run = [all](const Words&) { return Import(all->verb); }};
}

Verb DefineReport() {
  const auto all = std::make_shared<Bound<ReportVerbOptions>>();
  plots::ReportOptions& report = all->own.report;
  return {.group = kExperiments,
          .name = "report",
          .summary = "write tables and figures from the records",
          .options = {ManifestArgument(all->verb), ResultsOption(all->verb),
                      SetOption(all->verb),
                      Bind("--figures A,B,...", "draw only these figures",
                           report.figures),
                      Bind("--with A.toml,B.toml,...",
                           "draw the figures of these experiments with its own "
                           "as one, below results/joint",
                           all->own.with),
                      Bind("--reference METHOD",
                           "compare the others with this method (default: "
                           "oppa, or the first)",
                           report.reference)},
          .examples = {"oppa report experiments/smoke.toml",
                       "oppa report experiments/qwen-8gpu.toml --figures "
                       "throughput-time",
                       "oppa report experiments/bert-8gpu.toml --with "
                       "experiments/qwen-8gpu.toml --figures ablation-views"},
          .run = [all](const Words&) { return Report(all->verb, all->own); }};
}

}  // namespace

Verbs RecordVerbs() {
  return {DefineStatus(), DefineCheck(), DefineImport(), DefineReport()};
}

}  // namespace cli
