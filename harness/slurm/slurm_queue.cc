#include "harness/slurm/slurm_queue.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include "common/files.h"
#include "common/ranges.h"
#include "common/text.h"
#include "harness/slurm/slurm_commands.h"
#include "harness/slurm/submission.h"
#include "harness/stop.h"

namespace harness {
namespace {

namespace fs = std::filesystem;

fs::path CachePath(const fs::path& experiment_folder) {
  return SlurmFolder(experiment_folder) / "queue.txt";
}

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
  const auto* const found = std::ranges::find_if(
      kStates, [name](const JobState& row) { return row.name == name; });
  return found == kStates.end() ? nullptr : found;
}

// What squeue prints about the jobs of an experiment.
std::optional<std::string> CallSqueue(const std::string& experiment) {
  common::CommandResult result = RunSlurmCommand(
      {"squeue", "--noheader", "--array", "--states=all",
       "--format=%F|%K|%T|%N|%L|%r", "--name=" + JobName(experiment)});
  return result.exit_code == 0 ? std::optional(std::move(result.output))
                               : std::nullopt;
}

// The answer in the file, if that is recent enough.
std::optional<Queue> ReadCache(const fs::path& path) {
  std::error_code error;
  const auto written = fs::last_write_time(path, error);
  const double age_s =
      std::chrono::duration<double>(fs::file_time_type::clock::now() - written)
          .count();
  // A negative age: the clock was set back.
  if (error || age_s < 0.0 || age_s >= kQueueCacheSeconds) {
    return std::nullopt;
  }
  const std::optional<std::string> text = common::ReadFileIfExists(path);
  return text ? std::optional(ParseQueue(*text)) : std::nullopt;
}

}  // namespace

JobEnd QueueEntry::End() const {
  const JobState* known = FindState(state);
  return known == nullptr ? JobEnd::kOther : known->end;
}

bool QueueEntry::IsStuck() const {
  constexpr std::array kHeld = {"REQUEUE_HOLD", "SPECIAL_EXIT",
                                "RESV_DEL_HOLD"};
  constexpr std::array kNever = {"DependencyNeverSatisfied", "BadConstraints",
                                 "PartitionNodeLimit", "PartitionTimeLimit"};
  return common::Contains(kHeld, state) ||
         (state == "PENDING" && (reason.find("held") != std::string::npos ||
                                 reason.find("Held") != std::string::npos ||
                                 common::Contains(kNever, reason)));
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

std::optional<Queue> ReadQueue(const std::string& experiment) {
  const std::optional<std::string> text = CallSqueue(experiment);
  return text ? std::optional(ParseQueue(*text)) : std::nullopt;
}

// One process calls squeue; the others wait for its answer.
std::optional<Queue> ReadCachedQueue(const fs::path& experiment_folder,
                                     const std::string& experiment) {
  const fs::path path = CachePath(experiment_folder);
  if (auto queue = ReadCache(path)) {
    return queue;
  }
  const common::Descriptor lock =
      common::OpenFile(path.string() + ".lock", O_RDWR | O_CREAT);
  if (lock.ok()) {
    // Anyone who may read the folder can hold the lock.
    constexpr int kLooks = 50;
    for (int look = 0; look < kLooks && StopSignal() == 0 &&
                       ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0;
         ++look) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    if (auto queue = ReadCache(path)) {
      return queue;  // another process called squeue meanwhile
    }
  }
  const std::optional<std::string> answer = CallSqueue(experiment);
  if (answer && lock.ok()) {
    try {
      common::ReplaceFile(path, *answer);
    } catch (const std::exception&) {
      // The disk is full: no cache.
    }
  }
  return answer ? std::optional(ParseQueue(*answer)) : std::nullopt;
}

void DropCachedQueue(const fs::path& experiment_folder) {
  common::Remove(CachePath(experiment_folder));
}

}  // namespace harness
