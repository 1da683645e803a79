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
#include "common/files.h"
#include "common/hash.h"
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

void Sleep() {
  std::this_thread::sleep_for(std::chrono::duration<double>(kPollSeconds));
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
  throw std::runtime_error(fmt::format("{}: {}; its log: {}", folder.string(),
                                       why, (folder / "log.txt").string()));
}

// The state of a job in the queue while its result is awaited.
class Watch {
 public:
  Watch(const TrialJobs::Place& place, const TrialJob& job)
      : place_(place), job_(job) {}

  // True if the job cannot produce a result any more: it ended, is unknown to
  // Slurm, or will not start, and a slow file server had time to show a result.
  [[nodiscard]] bool HasEnded() {
    const double now_s = common::SteadySeconds();
    if (now_s < next_s_) {
      return false;
    }
    next_s_ = now_s + kQueueCacheSeconds;
    const std::optional<Queue> queue =
        ReadCachedQueue(place_.experiment_folder, JobName(place_.experiment));
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
  const TrialJobs::Place& place_;
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

}  // namespace

TrialJobs::TrialJobs(SlurmOptions options, Place place,
                     trials::TrialRunner& local)
    : options_(std::move(options)), place_(std::move(place)), local_(local) {}

Measurement TrialJobs::Run(const trials::TrialRequest& request) {
  const auto custom = CustomOf(request.candidate.config());
  const fs::path folder =
      TrialJobsFolder(place_.run_folder) /
      fmt::format(
          "{:016x}",
          common::DeriveSeed(
              ToString(request.candidate.config()) +
              (custom ? fmt::format(",{}", fmt::join(*custom, ",")) : "")));
  CheckFolder(folder);
  Prepare(folder, {place_.manifest, place_.settings, place_.problem,
                   options_.time_minutes, custom, request});
  TrialJob job = ReadTrialJob(folder).value_or(TrialJob{});
  while (true) {
    if (job.id == 0) {
      Submit(folder, job);
    }
    Watch watch(place_, job);
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
      fs::remove(folder / "result.json");  // the cause may get fixed
      fs::remove(folder / "job.json");
      Refuse(folder, result->refusal);
    }
    if (result && result->measurement) {
      return *result->measurement;
    }
    if (auto measurement = Conclude(folder, watch.entry(), job)) {
      return *measurement;
    }
  }
}

// Keeps a folder of the same trial, and replaces one of another trial.
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
  common::ReplaceFile(folder / "task.sh", TaskScript());
  SlurmPlace place;
  place.program = place_.program;
  place.directory = fs::current_path();
  place.folder = folder;
  place.experiment = place_.experiment;
  SubmitExcluding(job.bad_nodes, place_.note,
                  [&](const std::vector<std::string>& excluded) {
                    place.token = NewToken();
                    place.bad_nodes = excluded;
                    job.id = Sbatch(SbatchTrial(options_, place, place_.nodes,
                                                place_.gpus_per_node),
                                    SlurmEnvironment(options_.environment));
                    job.bad_nodes = excluded;
                  });
  WriteTrialJob(folder, job);
}

std::optional<Measurement> TrialJobs::Conclude(
    const fs::path& folder, const std::optional<QueueEntry>& entry,
    TrialJob& job) const {
  JobEvidence evidence;
  evidence.entry = entry;
  evidence.detail = entry ? entry->Explain() : "the job is unknown to Slurm";
  evidence.failures = job.failures;
  evidence.excludes_nodes = !job.bad_nodes.empty();
  const JobVerdict verdict = DecideRetry(options_, evidence);
  switch (verdict.failure) {  // time limits and memory are data for the search
    case JobFailure::kTimeLimit:
      return Without(Outcome::kTimedOut, 60.0 * options_.time_minutes,
                     evidence.detail);
    case JobFailure::kHostMemory:
      return Without(Outcome::kFailed, 0.0, evidence.detail);
    case JobFailure::kCancelled:
      fs::remove(folder / "job.json");
      throw trials::TrialInterrupted(
          fmt::format("job {} was cancelled", job.id));
    default:
      break;
  }
  (void)Cancel({std::to_string(job.id)});
  if (verdict.action == JobAction::kGiveUp) {
    fs::remove(folder / "job.json");
    const std::string last = Tail(folder / "log.txt", 1);
    Refuse(folder, fmt::format("{}{}{}", verdict.reason,
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

std::vector<std::int64_t> TrialJobIds(const fs::path& run_folder) {
  std::vector<std::int64_t> ids;
  for (const fs::path& folder :
       common::ListFolder(TrialJobsFolder(run_folder))) {
    const std::optional<TrialJob> job = ReadTrialJob(folder);
    if (job && job->id != 0 && !fs::exists(folder / "result.json")) {
      ids.push_back(job->id);
    }
  }
  return ids;
}

}  // namespace harness
