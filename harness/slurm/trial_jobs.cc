#include "harness/slurm/trial_jobs.h"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/files.h"
#include "common/hash.h"
#include "common/json.h"
#include "harness/local_pool.h"
#include "harness/slurm/retry_policy.h"
#include "harness/slurm/slurm_commands.h"
#include "harness/slurm/slurm_queue.h"
#include "harness/slurm/submission.h"

namespace harness {
namespace {

namespace fs = std::filesystem;
using trials::Measurement;
using trials::Outcome;

constexpr double kPollSeconds = 0.2;  // of the result
constexpr double kAfterFailureSeconds = 2.0;
constexpr double kAfterSuccessSeconds = 30.0;

[[noreturn]] void FailTrial(const fs::path& folder, const std::string& why) {
  throw std::runtime_error(fmt::format("{}: {}; its log: {}", folder.string(),
                                       why, (folder / "log.txt").string()));
}

// The state of a job in the queue while its result is awaited.
class Watch {
 public:
  Watch(const TrialJobs::Search& search, const TrialJob& job)
      : search_(search), job_(job) {}

  // True if the job cannot produce a result any more: it ended, is unknown to
  // Slurm, or will not start, and a slow file server had time to show a result.
  [[nodiscard]] bool HasEnded() {
    const double now_s = common::SteadySeconds();
    if (now_s < next_s_) {
      return false;
    }
    next_s_ = now_s + kQueueCacheSeconds;
    const std::optional<Queue> queue =
        ReadCachedQueue(search_.experiment_folder, search_.place.experiment);
    if (!queue) {
      return false;  // the controller does not answer: wait for it
    }
    const auto found = queue->find({job_.id, -1});
    if (found != queue->end()) {
      entry_ = found->second;
    } else if (entry_ && entry_->IsActive()) {
      entry_.reset();  // unknown to Slurm before its end was seen
    }
    if (entry_ && entry_->IsActive() &&
        (!entry_->IsStuck() || entry_->IsHeldByUser()) &&
        !(entry_->WaitsForNodes() && !job_.bad_nodes.empty())) {
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
  const TrialJobs::Search& search_;
  const TrialJob& job_;
  // An older cached answer may precede the submission.
  double next_s_ = common::SteadySeconds() + kQueueCacheSeconds;
  std::optional<double> ended_since_s_;
  std::optional<QueueEntry> entry_;
};

// The values of the knobs without a member; absent if all have their defaults.
std::optional<std::vector<int>> CustomOf(const trials::ParallelConfig& config) {
  if (config.custom == trials::ParallelConfig{}.custom) {
    return std::nullopt;
  }
  return std::vector<int>(config.custom.begin(), config.custom.end());
}

// A file for each job: one that was cancelled may still write its result.
fs::path ResultFile(const fs::path& folder, std::int64_t job) {
  return folder / fmt::format("result-{}.json", job);
}

// What a job that could not write a result stands for.
Measurement Store(const fs::path& folder, const TrialJob& job, Outcome outcome,
                  double duration_s, const std::string& why) {
  TrialResult result;
  result.measurement = Measurement{.outcome = outcome,
                                   .setup_s = duration_s,
                                   .duration_s = duration_s,
                                   .message = why};
  WriteTrialResult(folder, job.id, result);
  return *result.measurement;
}

}  // namespace

fs::path TrialJobsFolder(const fs::path& run_folder) {
  return run_folder / "jobs";
}

TrialTask ReadTrialTask(const fs::path& folder) {
  auto task = common::ReadJsonAs<TrialTask>(folder / "trial.json");
  trials::Candidate& candidate = task.request.candidate;
  if (task.custom) {
    trials::ParallelConfig config = candidate.config();
    auto& custom = config.custom;
    std::copy_n(task.custom->begin(),
                std::min(task.custom->size(), custom.size()), custom.begin());
    candidate = config;
  }
  StopBy(task.request.stop_rule, task.request);
  return task;
}

std::optional<TrialJob> ReadTrialJob(const fs::path& folder) {
  return common::ReadJsonIfExists<TrialJob>(folder / "job.json");
}

std::optional<TrialResult> ReadTrialResult(const fs::path& folder,
                                           std::int64_t job) {
  return common::ReadJsonIfExists<TrialResult>(ResultFile(folder, job));
}

void WriteTrialTask(const fs::path& folder, const TrialTask& task) {
  common::StoreFile(folder / "trial.json", common::JsonFileText(task));
}

void WriteTrialJob(const fs::path& folder, const TrialJob& job) {
  common::StoreFile(folder / "job.json", common::JsonFileText(job));
}

void WriteTrialResult(const fs::path& folder, std::int64_t job,
                      const TrialResult& result) {
  common::StoreFirst(ResultFile(folder, job), common::JsonFileText(result));
}

TrialJobs::TrialJobs(Search search, trials::TrialRunner& local)
    : search_(std::move(search)), local_(local) {}

Measurement TrialJobs::Run(const trials::TrialRequest& request) {
  TrialTask task = search_.task;
  task.custom = CustomOf(request.candidate.config());
  task.request = request;
  const fs::path folder = FolderOf(task);
  CheckFolder(folder);
  {
    const std::lock_guard lock(mutex_);
    own_.insert(folder);
  }
  TrialJob job = ReadTrialJob(folder).value_or(TrialJob{});
  while (true) {
    if (job.id == 0) {
      Submit(folder, task, job);
    }
    Watch watch(search_, job);
    std::optional<TrialResult> result;
    while (!(result = ReadTrialResult(folder, job.id)) && !watch.HasEnded()) {
      if (request.interrupted && request.interrupted()) {
        (void)Cancel(std::vector{job.id}, search_.place.experiment);
        common::Remove(folder / "job.json");
        throw trials::TrialInterrupted(
            fmt::format("stopped; job {} was cancelled", job.id));
      }
      std::this_thread::sleep_for(std::chrono::duration<double>(kPollSeconds));
    }
    if (result && !result->refusal.empty()) {
      common::Remove(folder / "job.json");  // the cause may get fixed
      FailTrial(folder, result->refusal);
    }
    if (result && result->measurement) {
      return *result->measurement;
    }
    if (auto measurement = Conclude(folder, watch.entry(), job)) {
      return *measurement;
    }
  }
}

// The time that is left to the search tells no trials apart.
fs::path TrialJobs::FolderOf(const TrialTask& task) const {
  TrialTask key = task;
  key.request.time_limit_s = trials::TrialRequest().time_limit_s;
  const std::uint64_t hash = common::DeriveSeed(common::JsonFileText(key));
  return TrialJobsFolder(search_.run_folder) / fmt::format("{:016x}", hash);
}

// A job of an earlier start may be that of a trial that is about to run: of the
// first `in_flight` ones.
void TrialJobs::CancelOthers() const {
  const std::lock_guard lock(mutex_);
  if (std::cmp_greater_equal(own_.size(), search_.in_flight)) {
    (void)Cancel(TrialJobIds(search_.run_folder, own_),
                 search_.place.experiment);
  }
}

void TrialJobs::Submit(const fs::path& folder, const TrialTask& task,
                       TrialJob& job) const {
  CancelOthers();
  WriteTrialTask(folder, task);
  common::ReplaceFile(folder / "task.sh", TaskScript(search_.options));
  SlurmPlace place = search_.place;
  place.folder = folder;
  const SlurmOptions& options = search_.options;
  const Job& needs = search_.needs;
  SubmitExcluding(job.bad_nodes, search_.note,
                  [&](const std::vector<std::string>& excluded) {
                    place.token = NewToken();
                    place.bad_nodes = excluded;
                    job.id = Sbatch(SbatchTrial(options, place, needs.nodes,
                                                needs.gpus_per_node),
                                    SlurmEnvironment(options.environment));
                    job.bad_nodes = excluded;
                  });
  WriteTrialJob(folder, job);
}

std::optional<Measurement> TrialJobs::Conclude(
    const fs::path& folder, const std::optional<QueueEntry>& entry,
    TrialJob& job) const {
  const std::string detail =
      entry ? entry->Explain() : "the job is unknown to Slurm";
  const JobVerdict verdict =
      DecideRetry(search_.options, {.entry = entry,
                                    .detail = detail,
                                    .failures = job.failures,
                                    .excludes_nodes = !job.bad_nodes.empty()});
  // Time limits and memory are data for the search.
  switch (entry ? entry->End() : JobEnd::kOther) {
    case JobEnd::kTimeLimit:
      return Store(folder, job, Outcome::kTimedOut,
                   60.0 * search_.options.time_minutes, detail);
    case JobEnd::kHostMemory:
      return Store(folder, job, Outcome::kFailed, 0.0, detail);
    case JobEnd::kCancelled:
      common::Remove(folder / "job.json");
      throw trials::TrialInterrupted(
          fmt::format("job {} was cancelled", job.id));
    default:
      break;
  }
  (void)Cancel(std::vector{job.id}, search_.place.experiment);
  if (verdict.action == JobAction::kGiveUp) {
    common::Remove(folder / "job.json");
    const std::string last = Tail(folder / "log.txt", 1);
    FailTrial(folder, fmt::format("{}{}{}", verdict.reason,
                                  last.empty() ? "" : "; last output: ", last));
  }
  job.id = 0;
  if (verdict.action == JobAction::kRetryAnywhere) {
    job.bad_nodes.clear();
  } else {
    ++job.failures;
    job.bad_nodes = ExtendExclusions(job.bad_nodes, entry ? entry->node : "");
  }
  WriteTrialJob(folder, job);
  return std::nullopt;
}

std::vector<std::int64_t> TrialJobIds(const fs::path& run_folder,
                                      const std::set<fs::path>& without) {
  std::vector<std::int64_t> ids;
  for (const fs::path& folder :
       common::ListFolder(TrialJobsFolder(run_folder))) {
    const std::optional<TrialJob> job = ReadTrialJob(folder);
    if (job && job->id != 0 && !without.contains(folder) &&
        !fs::exists(ResultFile(folder, job->id))) {
      ids.push_back(job->id);
    }
  }
  return ids;
}

}  // namespace harness
