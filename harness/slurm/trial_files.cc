#include "harness/slurm/trial_files.h"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>
#include <unistd.h>

#include "common/files.h"
#include "common/json.h"

namespace harness {
namespace fs = std::filesystem;

fs::path TrialJobsFolder(const fs::path& run_folder) {
  return run_folder / "jobs";
}

TrialTask ReadTrialTask(const fs::path& folder) {
  auto task = common::ReadJsonAs<TrialTask>(folder / "trial.json");
  trials::Candidate& candidate = task.request.candidate;
  if (task.custom && !candidate.IsPlan()) {
    trials::ParallelConfig config = candidate.config();
    auto& custom = config.custom;
    std::copy_n(task.custom->begin(),
                std::min(task.custom->size(), custom.size()), custom.begin());
    candidate = config;
  }
  StopBy(task.request.stop_rule, task.request);
  return task;
}

std::optional<TrialJob> ReadTrialJob(const fs::path& folder) {
  return common::ReadJsonIfExists<TrialJob>(folder / "job.json");
}

std::optional<TrialResult> ReadTrialResult(const fs::path& folder) {
  return common::ReadJsonIfExists<TrialResult>(folder / "result.json");
}

void WriteTrialTask(const fs::path& folder, const TrialTask& task) {
  common::StoreFile(folder / "trial.json", common::JsonFileText(task));
}

void WriteTrialJob(const fs::path& folder, const TrialJob& job) {
  common::StoreFile(folder / "job.json", common::JsonFileText(job));
}

void WriteTrialResult(const fs::path& folder, const TrialResult& result) {
  const fs::path path = folder / "result.json";
  const fs::path temporary =
      common::WriteTemporaryFile(path, common::JsonFileText(result));
  const int failed = ::link(temporary.c_str(), path.c_str());
  fs::remove(temporary);
  if (failed != 0 && !fs::exists(path)) {
    throw std::runtime_error(
        fmt::format("{}: could not be created", path.string()));
  }
}

}  // namespace harness
