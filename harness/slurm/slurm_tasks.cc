#include "harness/slurm/slurm_tasks.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/text.h"

namespace harness {
namespace {

using Kind = SlurmTaskState::Kind;

// Finds the array that holds a job; nullptr if it was not submitted.
const SlurmArray* ArrayOf(const SlurmSubmission& submission, const Job& job) {
  for (const SlurmArray& array : submission.arrays) {
    if (array.nodes == job.nodes && array.gpus_per_node == job.gpus_per_node &&
        std::binary_search(
            array.tasks.begin(), array.tasks.end(), job.id - array.base)) {
      return &array;
    }
  }
  return nullptr;
}

// What Slurm has for a task that is in its queue, now or a while ago.
void Judge(const QueueEntry& entry, SlurmTaskState& state) {
  state.detail = entry.Explain();
  state.node = entry.node;
  state.time_left = entry.time_left;
  if (entry.IsStuck()) {
    state.kind = Kind::kStuck;
  } else if (entry.IsActive()) {
    state.kind = entry.state == "PENDING" || entry.state == "CONFIGURING" ||
                         entry.state == "REQUEUED"
                     ? Kind::kPending
                     : Kind::kRunning;
  } else {
    state.kind = Kind::kFailed;
  }
}

// What the job itself had to say at its end.
void Judge(const SlurmAttempt& attempt, SlurmTaskState& state) {
  using State = SlurmAttempt::State;
  if (attempt.state == State::kRunning) {
    if (state.kind == Kind::kFailed) {
      state.detail += fmt::format(" while it ran on {}", attempt.node);
    }
    return;
  }
  state.kind = attempt.state == State::kDone || attempt.state == State::kStopped
                   ? Kind::kEnded
                   : Kind::kFailed;
  if (!attempt.message.empty()) {
    state.detail = attempt.message;
  }
}

}  // namespace

SlurmTaskState StateOf(const SlurmSubmission& submission,
                       const SlurmTask& task,
                       const std::optional<Queue>& queue) {
  SlurmTaskState state;
  state.task = task;
  state.attempt = ReadAttempt(submission.place.folder, task.job.id);
  const SlurmArray* array = ArrayOf(submission, task.job);
  if (array == nullptr || array->job_id == 0) {
    state.kind = Kind::kLost;
    state.detail = "was not submitted";
    return state;
  }
  state.array_job_id = array->job_id;
  state.array_task = task.job.id - array->base;
  state.log = TaskLog(submission.place.folder, array->base, state.array_task);
  if (queue) {
    const auto found = queue->find({array->job_id, state.array_task});
    if (found != queue->end()) {
      state.entry = found->second;
      Judge(found->second, state);
      if (state.kind == Kind::kPending && !submission.place.bad_nodes.empty() &&
          found->second.reason.starts_with("ReqNodeNotAvail")) {
        state.kind = Kind::kStuck;
        state.detail += fmt::format(
            "; {} was to be avoided: `oppa run` submits it for any node",
            fmt::join(submission.place.bad_nodes, ","));
      }
      if (found->second.IsActive()) {
        return state;
      }
    } else {
      state.kind = Kind::kLost;
      state.detail = "Slurm does not know it, and it left no word";
    }
  } else {
    state.detail = "squeue does not answer";
  }
  if (state.attempt) {
    Judge(*state.attempt, state);
  }
  return state;
}

std::map<std::string, SlurmTaskState> LatestTasks(
    const std::vector<SlurmSubmission>& submissions,
    const std::optional<Queue>& queue) {
  std::map<std::string, SlurmTaskState> latest;
  for (auto it = submissions.rbegin(); it != submissions.rend(); ++it) {
    for (const SlurmTask& task : ReadTasks(it->place.folder)) {
      if (!latest.contains(task.job.name)) {
        latest[task.job.name] = StateOf(*it, task, queue);
      }
    }
  }
  return latest;
}

std::optional<Queue> ReadQueue(
    const std::vector<SlurmSubmission>& submissions) {
  std::vector<std::int64_t> ids;
  for (const SlurmSubmission& submission : submissions) {
    const auto more = submission.JobIds();
    ids.insert(ids.end(), more.begin(), more.end());
  }
  return ReadQueue(ids);
}

std::string Cancel(const std::vector<std::string>& jobs) {
  if (jobs.empty()) {
    return "";
  }
  std::vector<std::string> words = {"scancel", "--quiet"};
  words.insert(words.end(), jobs.begin(), jobs.end());
  const common::CommandResult result =
      common::RunCommand(words, SlurmEnvironment());
  return result.exit_code == 0 ? "" : std::string(common::Trim(result.errors));
}

}  // namespace harness
