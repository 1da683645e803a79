#include "cli/worker_jobs.h"

#include <cstddef>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

#include "harness/provenance.h"

namespace cli {
namespace {

// The command of one run's worker. It includes the overrides, because they
// define the methods and repeats.
std::vector<std::string> WorkerCommand(const VerbOptions& options,
                                       const harness::RunSpec& run) {
  std::vector<std::string> command = {harness::ProgramPath(),    "run-one",
                                      options.manifest.string(), "--results",
                                      options.results.string(),  "--method",
                                      run.method->name,          "--repeat",
                                      std::to_string(run.repeat)};
  const auto add = [&command](const std::string& flag,
                              const std::string& value) {
    command.push_back(flag);
    command.push_back(value);
  };
  if (!options.slurm || options.trial_per_job) {
    add("--parent", std::to_string(::getpid()));
  }
  if (options.trial_per_job) {
    command.emplace_back("--trial-per-job");
  }
  if (!run.problem->name.empty()) {
    add("--problem", run.problem->name);
  }
  if (options.overrides.repeats) {
    add("--repeats", std::to_string(*options.overrides.repeats));
  }
  if (!options.overrides.methods.empty()) {
    add("--methods",
        fmt::format("{}", fmt::join(options.overrides.methods, ",")));
  }
  for (const std::string& setting : options.overrides.settings) {
    add("--set", setting);
  }
  if (options.overrides.held_out) {
    command.emplace_back("--held-out");
  }
  return command;
}

}  // namespace

std::vector<harness::Job> MissingJobs(
    const VerbOptions& options, const std::vector<harness::RunSpec>& runs,
    const std::vector<harness::RecordedRun>& recorded,
    const std::filesystem::path& folder) {
  std::vector<harness::Job> jobs;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!recorded[i].finished) {
      jobs.push_back({static_cast<int>(i), runs[i].Name(),
                      WorkerCommand(options, runs[i]),
                      runs[i].Folder(folder) / "log.txt"});
    }
  }
  return jobs;
}

}  // namespace cli
