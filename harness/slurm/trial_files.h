// The files of a trial that runs as a separate job:
//
//   <run folder>/jobs/<configuration's hash>/
//       trial.json    the request, and where the problem is described
//       job.json      the job that was submitted for it
//       result.json   the measurement, or why there is none
//       task.sh, log.txt

#ifndef HARNESS_SLURM_TRIAL_FILES_H_
#define HARNESS_SLURM_TRIAL_FILES_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/fields.h"
#include "trials/measurement.h"
#include "trials/trial_runner.h"

namespace harness {

struct TrialTask {
  std::filesystem::path manifest;
  std::vector<std::string> settings;  // of the manifest: ManifestOverrides
  std::string problem;                // its name in the manifest
  int time_minutes = 0;               // Slurm's limit; 0: unknown
  // ParallelConfig::custom of the request; absent: all are 0.
  std::optional<std::vector<int>> custom = std::nullopt;
  trials::TrialRequest request;  // on_step applies stop_rule and nothing else
};

void VisitFields(common::FieldsOf<TrialTask> auto& task, const auto& visit) {
  visit("manifest", task.manifest);
  visit("settings", task.settings);
  visit("problem", task.problem);
  visit("time_minutes", task.time_minutes);
  visit("custom", task.custom);
  visit("request", task.request);
}

struct TrialJob {
  std::int64_t id = 0;  // 0: none is submitted
  int failures = 0;     // of the machine, before this job
  std::vector<std::string> bad_nodes;
};

void VisitFields(common::FieldsOf<TrialJob> auto& job, const auto& visit) {
  visit("id", job.id);
  visit("failures", job.failures);
  visit("bad_nodes", job.bad_nodes);
}

// A measurement, or the reason why there is none.
struct TrialResult {
  std::optional<trials::Measurement> measurement;
  std::string refusal;  // bad input, no such program: a retry cannot help
};

void VisitFields(common::FieldsOf<TrialResult> auto& result,
                 const auto& visit) {
  visit("refusal", result.refusal);
  visit("measurement", result.measurement);
}

// <run folder>/jobs
[[nodiscard]] std::filesystem::path TrialJobsFolder(
    const std::filesystem::path& run_folder);

// Numbers survive writing and reading exactly.
// Errors: throw InputError when the file cannot be understood; return nothing
// if there is no file.
[[nodiscard]] TrialTask ReadTrialTask(const std::filesystem::path& folder);
[[nodiscard]] std::optional<TrialJob> ReadTrialJob(
    const std::filesystem::path& folder);
[[nodiscard]] std::optional<TrialResult> ReadTrialResult(
    const std::filesystem::path& folder);

void WriteTrialTask(const std::filesystem::path& folder, const TrialTask& task);
void WriteTrialJob(const std::filesystem::path& folder, const TrialJob& job);
// Does not overwrite a result that another attempt has already written.
void WriteTrialResult(const std::filesystem::path& folder,
                      const TrialResult& result);

}  // namespace harness

#endif  // HARNESS_SLURM_TRIAL_FILES_H_
