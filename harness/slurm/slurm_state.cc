#include "harness/slurm/slurm_state.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <fstream>
#include <iterator>
#include <random>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/files.h"

namespace harness {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr std::array<std::string_view, 6> kAttemptStates = {
    "running", "done", "stopped", "lost", "failed", "refused"};

std::string Content(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    throw common::InputError(fmt::format("{}: no such file", path.string()));
  }
  return {std::istreambuf_iterator<char>(in), {}};
}

// Calls `read` with the file's JSON.
template <typename Read>
auto WithJson(const fs::path& path, const std::string& text, Read read) {
  try {
    return read(Json::parse(text));
  } catch (const Json::exception& e) {
    throw common::InputError(fmt::format("{}: {}", path.string(), e.what()));
  }
}

// Every field by its name; what a task asks for is in its array.
template <typename Options, typename Visit>
void VisitFields(Options& options, Visit visit) {
  visit("partition", options.partition);
  visit("account", options.account);
  visit("qos", options.qos);
  visit("constraint", options.constraint);
  visit("time_minutes", options.time_minutes);
  visit("cpus", options.cpus);
  visit("memory_mb", options.memory_mb);
  visit("max_running", options.max_running);
  visit("retries", options.retries);
  visit("requeue_until_done", options.requeue_until_done);
  visit("options", options.options);
  visit("environment", options.environment);
}

Json ToJson(const SlurmOptions& options) {
  Json json;
  VisitFields(options, [&json](const char* name, const auto& value) {
    json[name] = value;
  });
  return json;
}

SlurmOptions OptionsFromJson(const Json& json) {
  SlurmOptions options;
  VisitFields(options, [&json](const char* name, auto& value) {
    json.at(name).get_to(value);
  });
  return options;
}

Json ToJson(const SlurmArray& array) {
  return {{"base", array.base},
          {"tasks", array.tasks},
          {"nodes", array.nodes},
          {"gpus_per_node", array.gpus_per_node},
          {"job_id", array.job_id}};
}

SlurmArray ArrayFromJson(const Json& json) {
  SlurmArray array;
  json.at("base").get_to(array.base);
  json.at("tasks").get_to(array.tasks);
  json.at("nodes").get_to(array.nodes);
  json.at("gpus_per_node").get_to(array.gpus_per_node);
  json.at("job_id").get_to(array.job_id);
  return array;
}

SlurmSubmission SubmissionFromJson(const fs::path& folder, const Json& json) {
  SlurmSubmission submission;
  SlurmPlace& place = submission.place;
  place.folder = folder;
  place.program = json.at("program").get<std::string>();
  place.directory = json.at("directory").get<std::string>();
  json.at("experiment").get_to(place.experiment);
  json.at("token").get_to(place.token);
  json.at("bad_nodes").get_to(place.bad_nodes);
  submission.options = OptionsFromJson(json.at("options"));
  for (const Json& array : json.at("arrays")) {
    submission.arrays.push_back(ArrayFromJson(array));
  }
  json.at("finish_job_id").get_to(submission.finish_job_id);
  json.at("cancelled").get_to(submission.cancelled);
  json.at("report").get_to(submission.report);
  return submission;
}

// The id comes first, so that a line is found without parsing it.
std::string TaskPrefix(int id) { return fmt::format("{{\"id\":{},", id); }

SlurmTask TaskFromJson(const Json& json) {
  SlurmTask task;
  json.at("id").get_to(task.job.id);
  json.at("name").get_to(task.job.name);
  task.job.log = json.at("log").get<std::string>();
  json.at("nodes").get_to(task.job.nodes);
  json.at("gpus_per_node").get_to(task.job.gpus_per_node);
  json.at("failures").get_to(task.failures);
  json.at("trials").get_to(task.trials);
  json.at("command").get_to(task.job.command);
  return task;
}

fs::path AttemptPath(const fs::path& folder, int id) {
  return folder / "attempts" / fmt::format("{}.json", id);
}

}  // namespace

std::vector<std::int64_t> SlurmSubmission::JobIds() const {
  std::vector<std::int64_t> ids;
  for (const SlurmArray& array : arrays) {
    if (array.job_id != 0) {
      ids.push_back(array.job_id);
    }
  }
  if (finish_job_id != 0) {
    ids.push_back(finish_job_id);
  }
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
                     utc.tm_year + 1900,
                     utc.tm_mon + 1,
                     utc.tm_mday,
                     utc.tm_hour,
                     utc.tm_min,
                     utc.tm_sec,
                     now.tv_nsec / 1000000,
                     random());
}

void WriteSubmission(const SlurmSubmission& submission) {
  Json arrays = Json::array();
  for (const SlurmArray& array : submission.arrays) {
    arrays.push_back(ToJson(array));
  }
  const Json json = {{"experiment", submission.place.experiment},
                     {"token", submission.place.token},
                     {"program", submission.place.program.string()},
                     {"directory", submission.place.directory.string()},
                     {"bad_nodes", submission.place.bad_nodes},
                     {"options", ToJson(submission.options)},
                     {"arrays", arrays},
                     {"finish_job_id", submission.finish_job_id},
                     {"cancelled", submission.cancelled},
                     {"report", submission.report}};
  common::ReplaceFile(submission.place.folder / "submission.json",
                      json.dump(1) + "\n");
}

SlurmSubmission ReadSubmission(const fs::path& folder) {
  const fs::path path = folder / "submission.json";
  return WithJson(path, Content(path), [&folder](const Json& json) {
    return SubmissionFromJson(folder, json);
  });
}

std::vector<SlurmSubmission> ReadSubmissions(
    const fs::path& experiment_folder) {
  std::vector<fs::path> folders;
  std::error_code none;
  for (const auto& entry :
       fs::directory_iterator(SlurmFolder(experiment_folder), none)) {
    if (fs::exists(entry.path() / "submission.json")) {
      folders.push_back(entry.path());
    }
  }
  std::sort(folders.begin(), folders.end());
  std::vector<SlurmSubmission> submissions;
  submissions.reserve(folders.size());
  for (const fs::path& folder : folders) {
    submissions.push_back(ReadSubmission(folder));
  }
  return submissions;
}

void WriteTasks(const fs::path& folder, const std::vector<SlurmTask>& tasks) {
  std::string text;
  for (const SlurmTask& task : tasks) {
    const Json rest = {{"name", task.job.name},
                       {"log", task.job.log.string()},
                       {"nodes", task.job.nodes},
                       {"gpus_per_node", task.job.gpus_per_node},
                       {"failures", task.failures},
                       {"trials", task.trials},
                       {"command", task.job.command}};
    text += TaskPrefix(task.job.id) + rest.dump().substr(1) + "\n";
  }
  common::ReplaceFile(folder / "tasks.jsonl", text);
}

std::vector<SlurmTask> ReadTasks(const fs::path& folder) {
  const fs::path path = folder / "tasks.jsonl";
  std::ifstream in(path, std::ios::binary);
  std::vector<SlurmTask> tasks;
  for (std::string line; std::getline(in, line);) {
    tasks.push_back(WithJson(path, line, TaskFromJson));
  }
  return tasks;
}

SlurmTask ReadTask(const fs::path& folder, int id) {
  const fs::path path = folder / "tasks.jsonl";
  std::ifstream in(path, std::ios::binary);
  const std::string prefix = TaskPrefix(id);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(prefix)) {
      return WithJson(path, line, TaskFromJson);
    }
  }
  throw common::InputError(fmt::format(
      "{}: no task {}: submit again with oppa run", path.string(), id));
}

void WriteAttempt(const fs::path& folder, int id, const SlurmAttempt& attempt) {
  const Json json = {
      {"state", kAttemptStates.at(static_cast<std::size_t>(attempt.state))},
      {"message", attempt.message},
      {"host", attempt.host},
      {"node", attempt.node},
      {"job", attempt.job},
      {"pid", attempt.pid}};
  common::ReplaceFile(
      AttemptPath(folder, id),
      json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::optional<SlurmAttempt> ReadAttempt(const fs::path& folder, int id) {
  const fs::path path = AttemptPath(folder, id);
  if (!fs::exists(path)) {
    return std::nullopt;
  }
  return WithJson(path, Content(path), [](const Json& json) {
    SlurmAttempt attempt;
    const auto state = json.at("state").get<std::string>();
    const auto* const found =
        std::find(kAttemptStates.begin(), kAttemptStates.end(), state);
    attempt.state =
        found == kAttemptStates.end()
            ? SlurmAttempt::State::kFailed
            : static_cast<SlurmAttempt::State>(found - kAttemptStates.begin());
    json.at("message").get_to(attempt.message);
    json.at("host").get_to(attempt.host);
    json.at("node").get_to(attempt.node);
    json.at("job").get_to(attempt.job);
    json.at("pid").get_to(attempt.pid);
    return attempt;
  });
}

}  // namespace harness
