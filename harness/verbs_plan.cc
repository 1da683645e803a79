// plan.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "harness/dispatch/slurm.h"
#include "harness/dispatch/slurm_commands.h"
#include "harness/plan.h"
#include "harness/status.h"
#include "harness/verbs.h"
#include "harness/verbs_slurm.h"
#include "harness/worker_jobs.h"

namespace harness {
namespace {

std::string Describe(const Budget& budget) {
  std::string text;
  if (std::isfinite(budget.time_s)) {
    text = fmt::format("{:g} min", budget.time_s / 60.0);
  }
  if (budget.trials > 0) {
    text +=
        fmt::format("{}{} trials", text.empty() ? "" : " or ", budget.trials);
  }
  return text + fmt::format(", {} steps a trial", budget.q_max);
}

int PlanSlurm(const VerbOptions& options,
              const Manifest& manifest,
              const std::filesystem::path& folder) {
  const SlurmSubmission submission =
      NewSubmission(options, manifest, "TOKEN", true);
  const std::vector<RunSpec> runs = RunMatrix(manifest);
  CheckFolder(submission.place.folder);
  if (options.trial_per_job) {
    fmt::print("{}", FormatTrialSubmission(submission, manifest));
    return 0;
  }
  fmt::print("{}",
             FormatSubmission(submission,
                              WithNeeds(submission.options,
                                        runs,
                                        MissingJobs(options, runs, folder)),
                              MaxArraySize()));
  return 0;
}

std::string PlanJson(const Manifest& manifest,
                     const std::vector<trials::ProblemInfo>& problems,
                     const std::vector<RunStatus>& runs) {
  nlohmann::ordered_json json;
  json["experiment"] = manifest.name;
  json["title"] = manifest.title;
  json["budget"] = {{"time_s",
                     std::isfinite(manifest.budget.time_s)
                         ? nlohmann::ordered_json(manifest.budget.time_s)
                         : nlohmann::ordered_json(nullptr)},
                    {"trials", manifest.budget.trials},
                    {"q_max", manifest.budget.q_max}};
  for (const trials::ProblemInfo& problem : problems) {
    json["problems"].push_back({{"name", problem.name},
                                {"description", problem.description},
                                {"backend", problem.backend},
                                {"gpus", problem.gpus},
                                {"candidates", problem.candidates}});
  }
  for (const RunStatus& status : runs) {
    json["runs"].push_back({{"run", status.run.Name()},
                            {"problem", status.run.problem->name},
                            {"method", status.run.method->name},
                            {"repeat", status.run.repeat},
                            {"state", ToString(status.state)}});
  }
  return json.dump(2) + "\n";
}

}  // namespace

int Plan(const VerbOptions& options) {
  const Manifest manifest = ReadManifest(options.manifest, options.overrides);
  const std::vector<trials::ProblemInfo> problems = CheckManifest(manifest);
  const std::filesystem::path folder = ExperimentFolder(options, manifest);
  CheckRecords(manifest, folder);
  const std::vector<RunStatus> runs = ReadStatus(manifest, folder);
  if (options.slurm) {
    return PlanSlurm(options, manifest, folder);
  }
  if (options.json) {
    fmt::print("{}", PlanJson(manifest, problems, runs));
    return 0;
  }
  fmt::print("{}: {}\nbudget of a run: {}\n\n",
             manifest.name,
             manifest.title,
             Describe(manifest.budget));
  for (const trials::ProblemInfo& problem : problems) {
    fmt::print("{}{}{} candidates; {} ({})\n",
               problem.name,
               problem.name.empty() ? "" : ": ",
               problem.candidates,
               problem.description,
               problem.backend);
  }
  fmt::print("\n{}", FormatRuns(runs));
  const auto done =
      std::count_if(runs.begin(), runs.end(), [](const RunStatus& status) {
        return status.state == RunState::kDone;
      });
  fmt::print("\n{} runs = {} problems x {} methods x {} repeats; {} to do\n",
             runs.size(),
             manifest.problems.size(),
             manifest.methods.size(),
             manifest.repeats,
             static_cast<std::ptrdiff_t>(runs.size()) - done);
  return 0;
}

}  // namespace harness
