#include "harness/slurm/slurm_queue.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/files.h"
#include "common/text.h"
#include "harness/slurm/slurm_commands.h"

namespace harness {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kCacheFolder = ".slurm";
constexpr std::string_view kRunsFile = "queue-runs.txt";
constexpr std::string_view kTrialsFile = "queue-trials.txt";

// A state of Slurm; `text` is for display, if it differs from the name.
struct JobState {
  std::string_view name;
  JobEnd end = JobEnd::kNone;
  std::string_view text;
};

constexpr std::array<JobState, 24> kStates = {{
    {"PENDING"},
    {"RUNNING"},
    {"CONFIGURING"},
    {"COMPLETING"},
    {"SUSPENDED"},
    {"REQUEUED"},
    {"REQUEUE_FED"},
    {"REQUEUE_HOLD"},
    {"RESIZING"},
    {"SIGNALING"},
    {"STAGE_OUT"},
    {"STOPPED"},
    {"SPECIAL_EXIT"},
    {"RESV_DEL_HOLD"},
    {"NODE_FAIL", JobEnd::kMachine, "its node failed"},
    {"BOOT_FAIL", JobEnd::kMachine, "its node did not start"},
    {"PREEMPTED", JobEnd::kMachine, "preempted by another job"},
    {"LAUNCH_FAILED", JobEnd::kMachine},
    {"TIMEOUT", JobEnd::kTimeLimit, "Slurm's time limit reached"},
    {"DEADLINE", JobEnd::kTimeLimit, "Slurm's deadline reached"},
    {"OUT_OF_MEMORY", JobEnd::kHostMemory,
     "out of host memory (slurm.memory_mb)"},
    {"CANCELLED", JobEnd::kCancelled, "cancelled"},
    {"FAILED", JobEnd::kOther, "failed"},
    {"COMPLETED", JobEnd::kOther, "ended"},
}};

const JobState* FindState(std::string_view name) {
  const auto* const found =
      std::find_if(kStates.begin(), kStates.end(),
                   [name](const JobState& row) { return row.name == name; });
  return found == kStates.end() ? nullptr : found;
}

bool IsOneOf(std::string_view text,
             std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

// Calls squeue for the jobs that `selection`, words of its command line, names.
std::optional<std::string> CallSqueue(
    const std::vector<std::string>& selection) {
  std::vector<std::string> words = {"squeue", "--noheader", "--array",
                                    "--states=all",
                                    "--format=%F|%K|%T|%N|%L|%r"};
  words.insert(words.end(), selection.begin(), selection.end());
  const common::CommandResult result =
      RunSlurmCommand(words, SlurmEnvironment());
  if (result.exit_code != 0 &&
      result.errors.find("Invalid job id") == std::string::npos) {
    return std::nullopt;
  }
  return result.output;
}

std::string JobList(const std::vector<std::int64_t>& job_ids) {
  // squeue fails for a single id that Slurm has forgotten, but not for a list
  // that contains one.
  return fmt::format("--jobs=1,{}", fmt::join(job_ids, ","));
}

bool IsFresh(const fs::path& path) {
  std::error_code error;
  const auto written = fs::last_write_time(path, error);
  const double age_s =
      std::chrono::duration<double>(fs::file_time_type::clock::now() - written)
          .count();
  // A negative age: the clock was set back.
  return !error && age_s >= 0.0 && age_s < kQueueCacheSeconds;
}

// The file holds the key of the cached call, a newline and squeue's output.
std::optional<Queue> ReadCache(const fs::path& path, const std::string& key) {
  if (!IsFresh(path)) {
    return std::nullopt;
  }
  const std::string content = common::ReadFileIfExists(path).value_or("");
  if (!content.starts_with(key + "\n")) {
    return std::nullopt;
  }
  return ParseQueue(std::string_view(content).substr(key.size() + 1));
}

// Locks a file while this object exists, if the file can be opened.
class FileLock {
 public:
  explicit FileLock(const fs::path& path)
      : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    if (fd_ >= 0) {
      ::flock(fd_, LOCK_EX);
    }
  }
  ~FileLock() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  [[nodiscard]] bool ok() const { return fd_ >= 0; }

 private:
  int fd_;
};

// The answer to a squeue call, from the file if that is recent enough. One
// process calls squeue; the others wait for its answer.
std::optional<Queue> CachedSqueue(const fs::path& path,
                                  const std::vector<std::string>& selection) {
  const std::string key = fmt::format("{}", fmt::join(selection, " "));
  if (auto queue = ReadCache(path, key)) {
    return queue;
  }
  std::error_code none;
  fs::create_directories(path.parent_path(), none);
  const FileLock lock(path.string() + ".lock");
  if (lock.ok()) {
    if (auto queue = ReadCache(path, key)) {
      return queue;  // another process called squeue meanwhile
    }
  }
  const std::optional<std::string> answer = CallSqueue(selection);
  if (!answer) {
    return std::nullopt;
  }
  if (lock.ok()) {
    try {
      common::ReplaceFile(path, key + "\n" + *answer);
    } catch (const std::exception&) {
      // The disk is full: no cache.
    }
  }
  return ParseQueue(*answer);
}

}  // namespace

JobEnd QueueEntry::End() const {
  const JobState* known = FindState(state);
  return known == nullptr ? JobEnd::kOther : known->end;
}

bool QueueEntry::IsStuck() const {
  if (IsOneOf(state, {"REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"})) {
    return true;
  }
  return state == "PENDING" &&
         (reason.find("held") != std::string::npos ||
          reason.find("Held") != std::string::npos ||
          IsOneOf(reason, {"DependencyNeverSatisfied", "BadConstraints",
                           "PartitionNodeLimit", "PartitionTimeLimit"}));
}

bool QueueEntry::IsLaunchFailedHold() const {
  return IsStuck() && reason.starts_with("launch failed");
}

bool QueueEntry::IsHeldByUser() const { return reason.starts_with("JobHeld"); }

bool QueueEntry::WaitsForNodes() const {
  return state == "PENDING" && reason.starts_with("ReqNodeNotAvail");
}

std::string QueueEntry::Explain() const {
  if (state == "PENDING" || IsStuck()) {
    return fmt::format("{}{}", reason,
                       IsStuck() ? ": it will not start by itself" : "");
  }
  const JobState* known = FindState(state);
  return known == nullptr || known->text.empty() ? state
                                                 : std::string(known->text);
}

Queue ParseQueue(std::string_view text) {
  Queue queue;
  for (const std::string_view line : common::Split(text, '\n')) {
    const std::vector<std::string_view> cells = common::Split(line, '|');
    if (cells.size() < 6) {
      continue;
    }
    const auto job = common::ParseInt64(common::Trim(cells[0]));
    if (!job) {
      continue;
    }
    const int task = common::ParseInt(common::Trim(cells[1])).value_or(-1);
    QueueEntry entry;
    entry.state = common::Trim(cells[2]);
    entry.node = common::Trim(cells[3]);
    entry.time_left = common::Trim(cells[4]);
    // The reason is the last cell because only it may hold a '|'.
    entry.reason = common::Trim(line.substr(cells[5].data() - line.data()));
    if (entry.reason.starts_with('(') && entry.reason.ends_with(')')) {
      entry.reason = entry.reason.substr(1, entry.reason.size() - 2);
    }
    queue[{*job, task}] = std::move(entry);
  }
  return queue;
}

std::optional<Queue> ReadQueue(const std::vector<std::int64_t>& job_ids) {
  if (job_ids.empty()) {
    return Queue{};
  }
  const std::optional<std::string> text = CallSqueue({JobList(job_ids)});
  return text ? std::optional(ParseQueue(*text)) : std::nullopt;
}

std::optional<Queue> ReadCachedQueue(const fs::path& experiment_folder,
                                     const std::vector<std::int64_t>& job_ids) {
  if (job_ids.empty()) {
    return Queue{};
  }
  return CachedSqueue(experiment_folder / kCacheFolder / kRunsFile,
                      {JobList(job_ids)});
}

std::optional<Queue> ReadCachedQueue(const fs::path& experiment_folder,
                                     const std::string& job_name) {
  return CachedSqueue(experiment_folder / kCacheFolder / kTrialsFile,
                      {"--me", "--name=" + job_name});
}

void DropCachedQueue(const fs::path& experiment_folder) {
  std::error_code none;
  fs::remove(experiment_folder / kCacheFolder / kRunsFile, none);
  fs::remove(experiment_folder / kCacheFolder / kTrialsFile, none);
}

}  // namespace harness
