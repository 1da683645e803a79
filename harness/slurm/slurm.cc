#include "harness/slurm/slurm.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "common/clock.h"
#include "common/files.h"
#include "common/process.h"
#include "common/ranges.h"
#include "harness/records/inputs.h"
#include "harness/run_one.h"
#include "harness/slurm/slurm_queue.h"
#include "harness/slurm/task_status.h"

namespace harness {
namespace {

namespace fs = std::filesystem;

constexpr double kLookIntervalSeconds = 2.0;

void Sleep(double seconds) {
  std::this_thread::sleep_for(
      std::chrono::duration<double>(std::max(seconds, 0.0)));
}

// True while the last job of a submission may still submit more jobs.
bool MaySubmitMore(const std::vector<SlurmSubmission>& submissions,
                   const Queue& queue) {
  return std::ranges::any_of(
      submissions, [&queue](const SlurmSubmission& submission) {
        const auto found = queue.find({submission.finish_job_id, -1});
        return found != queue.end() && found->second.IsActive() &&
               !found->second.IsStuck();
      });
}

}  // namespace

Slurm::Slurm(SlurmSubmission submission, fs::path experiment_folder)
    : submission_(std::move(submission)),
      experiment_folder_(std::move(experiment_folder)) {}

void Slurm::Submit(const std::vector<Job>& jobs) {
  Submit(common::Map(jobs, [](const Job& job) { return SlurmTask{job}; }));
}

void Slurm::Submit(const std::vector<SlurmTask>& tasks) {
  std::vector<Job> jobs;
  for (const SlurmTask& task : tasks) {
    jobs.push_back(task.job);
    waiting_[task.job.name] = task.job;
  }
  const SlurmPlace& place = submission_.place;
  CheckFolder(place.folder);
  common::CreateFolders(place.folder / "log");
  common::CreateFolders(place.folder / "attempts");
  common::StoreFile(place.folder / "task.sh", TaskScript(submission_.options));
  WriteTasks(place.folder, tasks);
  submission_.arrays = MakeArrays(jobs, MaxArraySize());
  WriteSubmission(submission_);
  const auto environment = SlurmEnvironment(submission_.options.environment);
  DropCachedQueue(experiment_folder_);
  try {
    for (SlurmArray& array : submission_.arrays) {
      array.job_id =
          Sbatch(SbatchArray(submission_.options, place, array), environment);
      WriteSubmission(submission_);
    }
    submission_.finish_job_id =
        Sbatch(SbatchFinish(submission_.options, place, submission_.JobIds()),
               environment);
    WriteSubmission(submission_);
  } catch (const std::exception&) {
    (void)Cancel(submission_.JobIds());
    submission_.cancelled = true;
    WriteSubmission(submission_);
    throw;
  }
}

std::vector<JobReport> Slurm::Poll(double wait_s) {
  const double give_up_s = common::SteadySeconds() + wait_s;
  if (next_look_s_ > give_up_s) {
    Sleep(wait_s);
    return {};
  }
  Sleep(next_look_s_ - common::SteadySeconds());
  std::vector<JobReport> reports = Look();
  next_look_s_ = common::SteadySeconds() + kLookIntervalSeconds;
  return reports;
}

std::vector<JobReport> Slurm::Look() {
  const auto submissions = ReadSubmissions(experiment_folder_);
  const std::optional<Queue> queue = ReadQueue(submission_.place.experiment);
  if (!queue) {
    return {};  // the controller does not answer: wait for it
  }
  const bool more_may_come =
      MaySubmitMore(submissions, *queue) ||
      ReadSubmissions(experiment_folder_).size() > submissions.size();
  const auto states = LatestTasks(submissions, queue);
  std::vector<JobReport> reports;
  std::vector<std::string> stale_jobs;
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    const Job& job = it->second;
    const auto found = states.find(job.name);
    const SlurmTaskState state =
        found == states.end() ? SlurmTaskState{} : found->second;
    if (IsFinished(RunFolderOf(job))) {
      if (state.kind == SlurmTaskState::Kind::kStuck) {
        stale_jobs.push_back(state.TaskId());
      }
      reports.push_back({job.id, JobReport::State::kSucceeded, ""});
    } else if (state.kind == SlurmTaskState::Kind::kStuck ||
               (!state.IsActive() && !more_may_come)) {
      reports.push_back({job.id, JobReport::State::kFailed, state.detail});
    } else {
      if (state.kind == SlurmTaskState::Kind::kRunning &&
          !std::exchange(started_[job.name], true)) {
        reports.push_back({job.id, JobReport::State::kStarted, ""});
      }
      ++it;
      continue;
    }
    it = waiting_.erase(it);
  }
  (void)Cancel(stale_jobs);
  return reports;
}

std::string FormatSubmission(const SlurmSubmission& submission,
                             const std::vector<Job>& jobs, int max_array_size) {
  const SlurmPlace& place = submission.place;
  std::string text = fmt::format("# {}\n{}\n# environment\n",
                                 (place.folder / "task.sh").string(),
                                 TaskScript(submission.options));
  for (const std::string& variable :
       SlurmEnvironment(submission.options.environment)) {
    text += fmt::format("#   {}\n", variable.substr(0, variable.find('=')));
  }
  std::string ids;
  int number = 0;
  for (const SlurmArray& array : MakeArrays(jobs, max_array_size)) {
    text += fmt::format(
        "\n# {} of {} runs\n{}\n", array.tasks.size(), jobs.size(),
        common::ShellLine(SbatchArray(submission.options, place, array)));
    ids += fmt::format("{}ARRAY{}", ids.empty() ? "" : ":", ++number);
  }
  std::string finish =
      common::ShellLine(SbatchFinish(submission.options, place, {}));
  const std::string_view flag = "--dependency=afterany:";
  finish.insert(finish.find(flag) + flag.size(), ids);
  return text + fmt::format(
                    "\n# after all arrays have ended: retries of what the "
                    "machine failed, then the report\n{}\n",
                    finish);
}

}  // namespace harness
