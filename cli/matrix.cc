// matrix.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/run.h"
#include "cli/slurm.h"
#include "cli/verb_options.h"
#include "common/json.h"
#include "harness/experiment.h"
#include "harness/records/inputs.h"
#include "harness/slurm/slurm.h"
#include "harness/slurm/slurm_commands.h"
#include "harness/spec.h"
#include "harness/status.h"

namespace cli {
namespace {

int MatrixOnSlurm(const VerbOptions& options,
                  const harness::Experiment& experiment,
                  const std::vector<harness::RecordedRun>& recorded) {
  const harness::SlurmSubmission submission =
      NewSubmission(options, experiment, "TOKEN", true);
  harness::CheckFolder(submission.place.folder);
  if (options.trial_per_job) {
    fmt::print("{}", FormatTrialSubmission(submission, experiment));
    return 0;
  }
  fmt::print("{}", harness::FormatSubmission(
                       submission,
                       WithNeeds(submission.options, experiment,
                                 MissingJobs(options, experiment, recorded)),
                       harness::MaxArraySize()));
  return 0;
}

std::string MatrixJson(const harness::Manifest& manifest,
                       const std::vector<trials::ProblemInfo>& problems,
                       const std::vector<harness::RunStatus>& runs) {
  common::Json json;
  json["experiment"] = manifest.name;
  json["title"] = manifest.title;
  json["budget"] = {{"time_s", std::isfinite(manifest.budget.time_s)
                                   ? common::Json(manifest.budget.time_s)
                                   : common::Json(nullptr)},
                    {"trials", manifest.budget.trials},
                    {"q_max", manifest.budget.q_max}};
  if (manifest.budget.stop_when) {
    json["budget"]["stop_when"] = manifest.budget.stop_when->ToString();
  }
  for (const trials::ProblemInfo& problem : problems) {
    json["problems"].push_back({{"name", problem.name},
                                {"description", problem.description},
                                {"backend", problem.backend},
                                {"gpus", problem.gpus},
                                {"candidates", problem.candidates}});
  }
  for (const harness::RunStatus& status : runs) {
    json["runs"].push_back({{"run", status.run.Name()},
                            {"problem", status.run.problem->name},
                            {"method", status.run.method->name},
                            {"repeat", status.run.repeat},
                            {"state", harness::ToString(status.state)}});
  }
  return common::ToText(json, 2) + "\n";
}

int Matrix(const VerbOptions& options) {
  const harness::Experiment experiment = OpenExperiment(options);
  const harness::Manifest& manifest = experiment.manifest;
  const std::vector<trials::ProblemInfo> problems =
      harness::CheckManifest(experiment);
  const std::vector<harness::RecordedRun> recorded =
      harness::CheckRecords(experiment);
  const std::vector<harness::RunStatus> runs = harness::ReadStatus(experiment);
  if (options.slurm) {
    return MatrixOnSlurm(options, experiment, recorded);
  }
  if (options.json) {
    fmt::print("{}", MatrixJson(manifest, problems, runs));
    return 0;
  }
  fmt::print("{}: {}\nbudget of a run: {}\n\n", manifest.name, manifest.title,
             ToText(manifest.budget));
  fmt::print("{}", harness::HeldOutNote(manifest));
  for (const trials::ProblemInfo& problem : problems) {
    fmt::print("{}{}{} configurations; {} ({})\n", problem.name,
               problem.name.empty() ? "" : ": ", problem.candidates,
               problem.description, problem.backend);
  }
  fmt::print("\n{}", harness::FormatRuns(runs));
  const auto done = std::ranges::count(runs, harness::RunState::kDone,
                                       &harness::RunStatus::state);
  fmt::print("\n{} runs = {} problems x {} methods x {} repeats; {} to do\n",
             runs.size(), manifest.problems.size(), manifest.methods.size(),
             manifest.repeats, static_cast<std::ptrdiff_t>(runs.size()) - done);
  return 0;
}

}  // namespace

Verbs MatrixVerbs() {
  const auto options = std::make_shared<VerbOptions>();
  return {{.group = kExperiments,
           .name = "matrix",
           .summary = "print the run matrix without running it",
           .description = "Checks the whole manifest and writes nothing. With "
                          "--dispatch slurm, prints the job scripts and the "
                          "sbatch commands.",
           .options = RecordOptions(*options) + DispatchOptions(*options) +
                      Options{JsonFlag(*options)},
           .examples = {"oppa matrix experiments/smoke.toml"},
           .run = [options](const Words&) { return Matrix(*options); }}};
}

}  // namespace cli
