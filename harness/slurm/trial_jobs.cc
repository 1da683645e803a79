#include "harness/slurm/trial_jobs.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/hash.h"
#include "harness/local_pool.h"
#include "harness/slurm/sbatch.h"
#include "harness/slurm/shared_queue.h"
#include "harness/slurm/slurm_commands.h"
#include "harness/slurm/slurm_state.h"
#include "harness/slurm/slurm_tasks.h"

namespace harness {
namespace {

namespace fs = std::filesystem;
using trials::Measurement;
using trials::Outcome;

constexpr double kLookSeconds = 0.2;  // at the result
constexpr double kAfterFailureSeconds = 2.0;
constexpr double kAfterSuccessSeconds = 30.0;

void Sleep() {
  std::this_thread::sleep_for(std::chrono::duration<double>(kLookSeconds));
}

// Held by Slurm itself after a failed start; it would wait for ever.
bool IsHusk(const QueueEntry& entry) {
  return entry.IsStuck() && entry.reason.find("launch failed") == 0;
}

bool IsHeldByPeople(const QueueEntry& entry) {
  return entry.reason.starts_with("JobHeld");
}

Measurement Without(Outcome outcome, double duration_s, std::string why) {
  Measurement measurement;
  measurement.outcome = outcome;
  measurement.setup_s = duration_s;
  measurement.duration_s = duration_s;
  measurement.message = std::move(why);
  return measurement;
}

[[noreturn]] void Refuse(const fs::path& folder, const std::string& why) {
  throw std::runtime_error(fmt::format("{}: {}; its log: {}",
                                       folder.string(),
                                       why,
                                       (folder / "log.txt").string()));
}

// The queue while one waits for a job.
class Watch {
 public:
  Watch(const TrialJobs::Place& place, std::int64_t job_id)
      : place_(place), job_id_(job_id) {}

  // True when the job has ended, or been forgotten, and had time to show its
  // result: a file server may be late.
  [[nodiscard]] bool HasEnded() {
    const double now_s = common::SteadySeconds();
    if (now_s < next_s_) {
      return false;
    }
    next_s_ = now_s + kSharedQueueSeconds;
    const std::optional<Queue> queue =
        ReadSharedQueue(place_.experiment_folder, JobName(place_.experiment));
    if (!queue) {
      return false;  // the controller is away: wait for it
    }
    const auto found = queue->find({job_id_, -1});
    if (found != queue->end()) {
      entry_ = found->second;
    } else if (entry_ && entry_->IsActive()) {
      entry_.reset();  // forgotten before anybody saw how it ended
    }
    if (entry_ && entry_->IsActive() &&
        (!entry_->IsStuck() || IsHeldByPeople(*entry_))) {
      ended_since_s_.reset();
      return false;
    }
    if (!ended_since_s_) {
      ended_since_s_ = now_s;
    }
    const bool failed = entry_ && entry_->state != "COMPLETED";
    return now_s - *ended_since_s_ >=
           (failed ? kAfterFailureSeconds : kAfterSuccessSeconds);
  }

  [[nodiscard]] const std::optional<QueueEntry>& entry() const {
    return entry_;
  }

 private:
  const TrialJobs::Place& place_;
  std::int64_t job_id_;
  // Every answer that is taken then was asked for after the submission.
  double next_s_ = common::SteadySeconds() + kSharedQueueSeconds;
  std::optional<double> ended_since_s_;
  std::optional<QueueEntry> entry_;
};

}  // namespace

TrialJobs::TrialJobs(SlurmOptions options,
                     Place place,
                     trials::TrialRunner& here)
    : options_(std::move(options)), place_(std::move(place)), here_(here) {}

Measurement TrialJobs::Run(const trials::TrialRequest& request) {
  const fs::path folder =
      TrialJobsFolder(place_.run_folder) /
      fmt::format("{:016x}", common::DeriveSeed(ToString(request.config)));
  CheckFolder(folder);
  Prepare(folder,
          {place_.manifest, place_.problem, options_.time_minutes, request});
  TrialJob job = ReadTrialJob(folder).value_or(TrialJob{});
  while (true) {
    if (job.id == 0) {
      Submit(folder, job);
    }
    Watch watch(place_, job.id);
    std::optional<TrialResult> result;
    while (!(result = ReadTrialResult(folder)) && !watch.HasEnded()) {
      if (request.interrupted && request.interrupted()) {
        (void)Cancel({std::to_string(job.id)});
        fs::remove(folder / "job.json");
        throw trials::TrialInterrupted(
            fmt::format("stopped; job {} was cancelled", job.id));
      }
      Sleep();
    }
    if (result && !result->refusal.empty()) {
      fs::remove(folder / "result.json");  // the reason may go away
      fs::remove(folder / "job.json");
      Refuse(folder, result->refusal);
    }
    if (result && result->measurement) {
      return *result->measurement;
    }
    if (auto measurement = Judge(folder, watch.entry(), job)) {
      return *measurement;
    }
  }
}

// A folder of the same trial is gone on with, another one's is made anew.
void TrialJobs::Prepare(const fs::path& folder, const TrialTask& task) {
  std::error_code none;
  bool same = fs::exists(folder / "trial.json", none);
  try {
    same = same && ToJson(ReadTrialTask(folder)) == ToJson(task);
  } catch (const common::InputError&) {
    same = false;
  }
  if (!same) {
    const std::optional<TrialJob> old = ReadTrialJob(folder);
    if (old && old->id != 0) {
      (void)Cancel({std::to_string(old->id)});
    }
    fs::remove_all(folder);
    WriteTrialTask(folder, task);
  }
}

void TrialJobs::Submit(const fs::path& folder, TrialJob& job) const {
  fs::remove(folder / "result.json");
  WriteTaskScript(folder / "task.sh");
  SlurmPlace place;
  place.program = place_.program;
  place.directory = fs::current_path();
  place.folder = folder;
  place.experiment = place_.experiment;
  place.token = NewToken();
  place.bad_nodes = job.bad_nodes;
  job.id =
      Sbatch(SbatchTrial(options_, place, place_.nodes, place_.gpus_per_node),
             SlurmEnvironment(options_.environment));
  WriteTrialJob(folder, job);
}

std::optional<Measurement> TrialJobs::Judge(
    const fs::path& folder,
    const std::optional<QueueEntry>& entry,
    TrialJob& job) const {
  const std::string state = entry ? entry->state : "";
  const std::string why =
      entry ? entry->Explain() : "Slurm does not know the job any more";
  if (entry && entry->IsStuck() && !IsHusk(*entry)) {
    (void)Cancel({std::to_string(job.id)});
    fs::remove(folder / "job.json");
    Refuse(folder, why);
  }
  if (state == "CANCELLED") {
    fs::remove(folder / "job.json");
    throw trials::TrialInterrupted(fmt::format("job {} was cancelled", job.id));
  }
  const double limit_s = 60.0 * options_.time_minutes;
  if (state == "TIMEOUT" || state == "DEADLINE") {
    return Without(Outcome::kTimedOut, limit_s, why);
  }
  if (state == "OUT_OF_MEMORY") {
    return Without(Outcome::kFailed, 0.0, why);
  }
  (void)Cancel({std::to_string(job.id)});
  if (entry && !entry->node.empty() && entry->node != "(null)") {
    job.bad_nodes.push_back(entry->node);
  }
  job.id = 0;
  ++job.failures;
  if (job.failures > options_.retries) {
    fs::remove(folder / "job.json");
    const std::string last = Tail(folder / "log.txt", 1);
    Refuse(folder,
           fmt::format("{}{}{}; tried {} times",
                       why,
                       last.empty() ? "" : ": ",
                       last,
                       job.failures));
  }
  WriteTrialJob(folder, job);
  return std::nullopt;
}

std::vector<std::int64_t> TrialJobIds(const fs::path& run_folder) {
  std::vector<std::int64_t> ids;
  std::error_code none;
  for (const auto& entry :
       fs::directory_iterator(TrialJobsFolder(run_folder), none)) {
    const std::optional<TrialJob> job = ReadTrialJob(entry.path());
    if (job && job->id != 0 && !fs::exists(entry.path() / "result.json")) {
      ids.push_back(job->id);
    }
  }
  return ids;
}

}  // namespace harness
