#include "harness/slurm/task_status.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "harness/slurm/trial_jobs.h"

namespace harness {
namespace {

namespace fs = std::filesystem;
using Kind = SlurmTaskState::Kind;

// Finds the array that holds a job; nullptr if it was not submitted.
const SlurmArray* ArrayOf(const SlurmSubmission& submission, const Job& job) {
  for (const SlurmArray& array : submission.arrays) {
    if (array.nodes == job.nodes && array.gpus_per_node == job.gpus_per_node &&
        std::ranges::binary_search(array.tasks, job.id - array.base)) {
      return &array;
    }
  }
  return nullptr;
}

// The state of a task according to Slurm.
void ApplyEntry(const QueueEntry& entry, SlurmTaskState& state) {
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
    state.kind =
        entry.End() == JobEnd::kCancelled ? Kind::kCancelled : Kind::kFailed;
  }
}

// The state of a task that is not active, according to the job itself.
void ApplyAttempt(const SlurmAttempt& attempt, SlurmTaskState& state) {
  using State = SlurmAttempt::State;
  if (attempt.state == State::kRunning) {
    if (state.kind == Kind::kFailed || state.kind == Kind::kCancelled) {
      state.detail += fmt::format(" while it ran on {}", attempt.node);
    }
    return;
  }
  state.kind = attempt.state == State::kDone ||
                       attempt.state == State::kTimeLimit ||
                       attempt.state == State::kStopped
                   ? Kind::kEnded
                   : Kind::kFailed;
  if (!attempt.message.empty()) {
    state.detail = attempt.message;
  }
}

void Add(const SlurmTaskState& state, RunStatus& status) {
  status.log = state.log.string();
  status.node = state.node;
  status.time_left = state.time_left;
  const std::string on_node = " on " + state.node;
  status.message = state.detail;
  if (!state.node.empty() && !state.detail.ends_with(on_node)) {
    status.message += on_node;
  }
  switch (state.kind) {
    case Kind::kPending:
    case Kind::kStuck:
      status.state = RunState::kPending;
      status.message = state.detail;
      break;
    case Kind::kRunning:
      status.state = RunState::kRunning;
      status.message =
          fmt::format("on {}, {} left", state.node, state.time_left);
      break;
    case Kind::kFailed:
      status.state = status.state == RunState::kRunning ? RunState::kRunning
                                                        : RunState::kFailed;
      status.message += fmt::format("; log: {}", state.log.string());
      break;
    case Kind::kCancelled:
      if (status.state != RunState::kRunning) {
        status.state = RunState::kStopped;
      }
      break;
    case Kind::kLost:
      if (status.state != RunState::kRunning) {
        status.state = RunState::kLost;
      }
      break;
    case Kind::kEnded:
    case Kind::kUnknown:
      break;
  }
}

bool IsSettled(const RunStatus& status) {
  return status.state == RunState::kDone || status.state == RunState::kDamaged;
}

// A search that waits for a trial that is a job.
void AddTrial(const std::optional<Queue>& queue, std::int64_t id,
              RunStatus& status) {
  status.message = fmt::format("its trial is job {}", id);
  const auto found = queue ? queue->find({id, -1}) : Queue::const_iterator();
  if (!queue || found == queue->end()) {
    return;
  }
  const QueueEntry& entry = found->second;
  status.node = entry.node;
  status.time_left = entry.time_left;
  status.message += fmt::format(": {}{}{}",
                                entry.IsActive() && entry.state != "PENDING"
                                    ? "running"
                                    : entry.Explain(),
                                entry.node.empty() ? "" : " on ", entry.node);
}

}  // namespace

std::string SlurmTaskState::TaskId() const {
  return fmt::format("{}_{}", array_job_id, array_task);
}

SlurmTaskState StateOf(const SlurmSubmission& submission, const SlurmTask& task,
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
      ApplyEntry(found->second, state);
      if (state.kind == Kind::kPending && !submission.place.bad_nodes.empty() &&
          found->second.WaitsForNodes()) {
        state.kind = Kind::kStuck;
        state.detail +=
            fmt::format("; {} is excluded: `oppa run` submits it for any node",
                        fmt::join(submission.place.bad_nodes, ","));
      }
      if (found->second.IsActive()) {
        return state;
      }
    } else if (submission.cancelled) {
      state.kind = Kind::kCancelled;
      state.detail = "cancelled";
    } else {
      state.kind = Kind::kLost;
      state.detail = "unknown to Slurm, and without a final state";
    }
  } else {
    state.detail = "squeue does not answer";
  }
  if (state.attempt) {
    ApplyAttempt(*state.attempt, state);
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

void AddQueue(const Experiment& experiment, std::vector<RunStatus>& runs) {
  // Throws for damaged files, also of an experiment that is done.
  const auto submissions = ReadSubmissions(experiment.folder);
  bool any = false;
  std::vector<std::pair<RunStatus*, std::int64_t>> trials;
  for (RunStatus& status : runs) {
    if (IsSettled(status)) {
      continue;
    }
    any = any || !submissions.empty();
    for (const std::int64_t id :
         TrialJobIds(status.run.Folder(experiment.folder))) {
      trials.emplace_back(&status, id);
    }
  }
  if (!any && trials.empty()) {
    return;
  }
  const std::optional<Queue> queue =
      ReadCachedQueue(experiment.folder, experiment.manifest.name);
  const auto states = LatestTasks(submissions, queue);
  for (RunStatus& status : runs) {
    const auto found = states.find(status.run.Name());
    if (found != states.end() && !IsSettled(status)) {
      Add(found->second, status);
    }
  }
  for (const auto& [status, id] : trials) {
    AddTrial(queue, id, *status);
  }
}

}  // namespace harness
