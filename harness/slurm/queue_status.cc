#include "harness/slurm/queue_status.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "harness/slurm/shared_queue.h"
#include "harness/slurm/slurm_commands.h"
#include "harness/slurm/slurm_state.h"
#include "harness/slurm/slurm_tasks.h"
#include "harness/slurm/trial_jobs.h"

namespace harness {
namespace {

namespace fs = std::filesystem;
using Kind = SlurmTaskState::Kind;

std::string Seen(const SlurmTaskState& state) {
  return fmt::format("{}{}", state.detail, state.node.empty() ? "" : " on ") +
         state.node;
}

void Add(const SlurmTaskState& state, RunStatus& status) {
  status.log = state.log.string();
  status.node = state.node;
  status.time_left = state.time_left;
  status.message = Seen(state);
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

// Runs that are tasks of arrays.
void AddTasks(const fs::path& experiment_folder, std::vector<RunStatus>& runs) {
  const auto submissions = ReadSubmissions(experiment_folder);
  if (submissions.empty()) {
    return;
  }
  std::vector<std::int64_t> ids;
  for (const SlurmSubmission& submission : submissions) {
    const auto more = submission.JobIds();
    ids.insert(ids.end(), more.begin(), more.end());
  }
  const auto states =
      LatestTasks(submissions, ReadSharedQueue(experiment_folder, ids));
  for (RunStatus& status : runs) {
    const auto found = states.find(status.run.Name());
    if (found != states.end() && !IsSettled(status)) {
      Add(found->second, status);
    }
  }
}

// Searches that wait for a trial elsewhere.
void AddTrials(const Manifest& manifest,
               const fs::path& experiment_folder,
               std::vector<RunStatus>& runs) {
  std::optional<Queue> queue;
  bool asked = false;
  for (RunStatus& status : runs) {
    if (IsSettled(status)) {
      continue;
    }
    for (const std::int64_t id :
         TrialJobIds(status.run.Folder(experiment_folder))) {
      if (!asked) {
        queue = ReadSharedQueue(experiment_folder, JobName(manifest.name));
        asked = true;
      }
      const auto found =
          queue ? queue->find({id, -1}) : Queue::const_iterator();
      if (!queue || found == queue->end()) {
        status.message = fmt::format("its trial is job {}", id);
        continue;
      }
      const QueueEntry& entry = found->second;
      status.node = entry.node;
      status.time_left = entry.time_left;
      status.message = fmt::format("its trial is job {}: {}{}{}",
                                   id,
                                   entry.IsActive() && entry.state != "PENDING"
                                       ? "running"
                                       : entry.Explain(),
                                   entry.node.empty() ? "" : " on ",
                                   entry.node);
    }
  }
}

}  // namespace

void AddQueue(const Manifest& manifest,
              const fs::path& experiment_folder,
              std::vector<RunStatus>& runs) {
  if (!std::all_of(runs.begin(), runs.end(), IsSettled)) {
    AddTasks(experiment_folder, runs);
    AddTrials(manifest, experiment_folder, runs);
  }
}

}  // namespace harness
