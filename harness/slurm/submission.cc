#include "harness/slurm/submission.h"

#include <ctime>
#include <random>
#include <string_view>

#include <fmt/format.h>

#include "common/error.h"
#include "common/fields.h"
#include "common/files.h"
#include "common/json.h"
#include "common/ranges.h"
#include "common/text.h"

namespace harness {

// Fields of the files below. The functions are found by their arguments
// (common/json.h), so they cannot be in an unnamed namespace.
void VisitFields(common::FieldsOf<SlurmSubmission> auto& submission,
                 const auto& visit) {
  visit("experiment", submission.place.experiment);
  visit("token", submission.place.token);
  visit("program", submission.place.program);
  visit("directory", submission.place.directory);
  visit("bad_nodes", submission.place.bad_nodes);
  visit("options", submission.options);
  visit("arrays", submission.arrays);
  visit("finish_job_id", submission.finish_job_id);
  visit("cancelled", submission.cancelled);
  visit("report", submission.report);
}

// The id is first, so that ReadTask finds a line without parsing it.
void VisitFields(common::FieldsOf<SlurmTask> auto& task, const auto& visit) {
  visit("id", task.job.id);
  visit("name", task.job.name);
  visit("log", task.job.log);
  visit("nodes", task.job.nodes);
  visit("gpus_per_node", task.job.gpus_per_node);
  visit("failures", task.failures);
  visit("trials", task.trials);
  visit("command", task.job.command);
}

// An unknown text is parsed as the first entry: kFailed.
NLOHMANN_JSON_SERIALIZE_ENUM(SlurmAttempt::State,
                             {{SlurmAttempt::State::kFailed, "failed"},
                              {SlurmAttempt::State::kRunning, "running"},
                              {SlurmAttempt::State::kDone, "done"},
                              {SlurmAttempt::State::kTimeLimit, "time_limit"},
                              {SlurmAttempt::State::kStopped, "stopped"},
                              {SlurmAttempt::State::kLost, "lost"},
                              {SlurmAttempt::State::kRefused, "refused"}})

namespace {

namespace fs = std::filesystem;

std::vector<std::string_view> Lines(std::string_view text) {
  if (text.ends_with('\n')) {
    text.remove_suffix(1);
  }
  return text.empty() ? std::vector<std::string_view>()
                      : common::Split(text, '\n');
}

fs::path AttemptPath(const fs::path& folder, int id) {
  return folder / "attempts" / fmt::format("{}.json", id);
}

}  // namespace

std::vector<std::int64_t> SlurmSubmission::JobIds() const {
  auto ids = common::Map(arrays, &SlurmArray::job_id);
  ids.push_back(finish_job_id);
  std::erase(ids, 0);
  return ids;
}

fs::path SlurmFolder(const fs::path& experiment_folder) {
  return experiment_folder / ".slurm";
}

std::string NewToken() {
  std::timespec now{};
  std::timespec_get(&now, TIME_UTC);
  std::tm utc{};
  ::gmtime_r(&now.tv_sec, &utc);
  std::random_device random;
  return fmt::format("{:04}{:02}{:02}t{:02}{:02}{:02}.{:03}-{:08x}",
                     utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                     utc.tm_hour, utc.tm_min, utc.tm_sec, now.tv_nsec / 1000000,
                     random());
}

void WriteSubmission(const SlurmSubmission& submission) {
  common::StoreFile(submission.place.folder / "submission.json",
                    common::SealedText(common::ToJson(submission)));
}

SlurmSubmission ReadSubmission(const fs::path& folder) {
  auto submission =
      common::ReadSealedAs<SlurmSubmission>(folder / "submission.json");
  submission.place.folder = folder;
  return submission;
}

std::vector<SlurmSubmission> ReadSubmissions(
    const fs::path& experiment_folder) {
  std::vector<SlurmSubmission> submissions;
  for (const fs::path& folder :
       common::ListFolder(SlurmFolder(experiment_folder))) {
    if (common::EntryExists(folder / "submission.json")) {
      submissions.push_back(ReadSubmission(folder));
    }
  }
  return submissions;
}

void WriteTasks(const fs::path& folder, const std::vector<SlurmTask>& tasks) {
  std::string text;
  for (const SlurmTask& task : tasks) {
    text += common::JsonFileText(task, -1);
  }
  common::StoreFile(folder / "tasks.jsonl", text);
}

std::vector<SlurmTask> ReadTasks(const fs::path& folder) {
  const fs::path path = folder / "tasks.jsonl";
  const std::string text = common::ReadFile(path);
  return common::Map(Lines(text), [&path](std::string_view line) {
    return common::ParseJsonAs<SlurmTask>(line, path.string());
  });
}

SlurmTask ReadTask(const fs::path& folder, int id) {
  const fs::path path = folder / "tasks.jsonl";
  const std::string text = common::ReadFile(path);
  const std::string prefix = fmt::format("{{\"id\":{},", id);
  for (const std::string_view line : Lines(text)) {
    if (line.starts_with(prefix)) {
      return common::ParseJsonAs<SlurmTask>(line, path.string());
    }
  }
  throw common::InputError(fmt::format(
      "{}: no task {}: rerun `oppa run` to submit it", path.string(), id));
}

void WriteAttempt(const fs::path& folder, int id, const SlurmAttempt& attempt) {
  common::StoreFile(AttemptPath(folder, id), common::JsonFileText(attempt, -1));
}

std::optional<SlurmAttempt> ReadAttempt(const fs::path& folder, int id) {
  return common::ReadJsonIfExists<SlurmAttempt>(AttemptPath(folder, id));
}

}  // namespace harness
