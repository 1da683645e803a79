#include "harness/slurm/slurm_queue.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include "common/text.h"
#include "harness/slurm/slurm_commands.h"

namespace harness {
namespace {

bool IsOneOf(std::string_view text,
             std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

template <typename Int>
std::optional<Int> ParseInt(std::string_view text) {
  Int value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

}  // namespace

bool QueueEntry::IsActive() const {
  return IsOneOf(state,
                 {"PENDING",
                  "RUNNING",
                  "CONFIGURING",
                  "COMPLETING",
                  "SUSPENDED",
                  "REQUEUED",
                  "REQUEUE_FED",
                  "REQUEUE_HOLD",
                  "RESIZING",
                  "SIGNALING",
                  "STAGE_OUT",
                  "STOPPED",
                  "SPECIAL_EXIT",
                  "RESV_DEL_HOLD"});
}

bool QueueEntry::IsStuck() const {
  if (IsOneOf(state, {"REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"})) {
    return true;
  }
  return state == "PENDING" &&
         (reason.find("held") != std::string::npos ||
          reason.find("Held") != std::string::npos ||
          reason == "DependencyNeverSatisfied" || reason == "BadConstraints" ||
          reason == "PartitionNodeLimit" || reason == "PartitionTimeLimit");
}

bool QueueEntry::IsInfrastructureFailure() const {
  return IsOneOf(state,
                 {"NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "LAUNCH_FAILED"});
}

std::string QueueEntry::Explain() const {
  if (state == "PENDING" || IsStuck()) {
    return fmt::format(
        "{}{}", reason, IsStuck() ? ": it will not start by itself" : "");
  }
  constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kNames{
      {{"NODE_FAIL", "its node failed"},
       {"BOOT_FAIL", "its node did not start"},
       {"PREEMPTED", "preempted by another job"},
       {"TIMEOUT", "Slurm's time limit reached"},
       {"DEADLINE", "Slurm's deadline reached"},
       {"OUT_OF_MEMORY", "out of host memory (slurm.memory_mb)"},
       {"CANCELLED", "cancelled"},
       {"FAILED", "failed"},
       {"COMPLETED", "ended"}}};
  for (const auto& [name, text] : kNames) {
    if (state == name) {
      return std::string(text);
    }
  }
  return state;
}

Queue ParseQueue(std::string_view text) {
  Queue queue;
  for (const std::string_view line : common::Split(text, '\n')) {
    const std::vector<std::string_view> cells = common::Split(line, '|');
    if (cells.size() < 6) {
      continue;
    }
    const auto job = ParseInt<std::int64_t>(common::Trim(cells[0]));
    if (!job) {
      continue;
    }
    const int task = ParseInt<int>(common::Trim(cells[1])).value_or(-1);
    QueueEntry entry;
    entry.state = common::Trim(cells[2]);
    entry.node = common::Trim(cells[3]);
    entry.time_left = common::Trim(cells[4]);
    // The reason is the last cell because only it may hold a '|'.
    entry.reason = common::Trim(
        line.substr(static_cast<std::size_t>(cells[5].data() - line.data())));
    if (entry.reason.starts_with('(') && entry.reason.ends_with(')')) {
      entry.reason = entry.reason.substr(1, entry.reason.size() - 2);
    }
    queue[{*job, task}] = std::move(entry);
  }
  return queue;
}

std::optional<std::string> AskSqueue(const std::vector<std::string>& which) {
  std::vector<std::string> words = {"squeue",
                                    "--noheader",
                                    "--array",
                                    "--states=all",
                                    "--format=%F|%K|%T|%N|%L|%r"};
  words.insert(words.end(), which.begin(), which.end());
  const common::CommandResult result =
      common::RunCommand(words, SlurmEnvironment());
  if (result.exit_code != 0 &&
      result.errors.find("Invalid job id") == std::string::npos) {
    return std::nullopt;
  }
  return result.output;
}

std::string JobList(const std::vector<std::int64_t>& job_ids) {
  // A list with one id that Slurm has forgotten is an error, a longer one is
  // not: so there is always a second one.
  return fmt::format("--jobs=1,{}", fmt::join(job_ids, ","));
}

std::optional<Queue> ReadQueue(const std::vector<std::int64_t>& job_ids) {
  if (job_ids.empty()) {
    return Queue{};
  }
  const std::optional<std::string> text = AskSqueue({JobList(job_ids)});
  return text ? std::optional(ParseQueue(*text)) : std::nullopt;
}

}  // namespace harness
