#include "harness/slurm/run_task.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <optional>
#include <stdexcept>

#include <fmt/format.h>
#include <unistd.h>

#include "common/error.h"
#include "common/process.h"
#include "harness/manifest/manifest.h"
#include "harness/provenance.h"
#include "harness/records/inputs.h"
#include "harness/run_one.h"
#include "harness/slurm/retry_policy.h"
#include "harness/slurm/slurm.h"
#include "harness/slurm/submission.h"
#include "harness/slurm/task_status.h"
#include "harness/slurm/trial_jobs.h"
#include "harness/stop.h"
#include "harness/testbeds/program.h"
#include "harness/testbeds/testbeds.h"
#include "trials/record.h"

namespace harness {
namespace {

namespace fs = std::filesystem;

// The time before Slurm's limit at which a run stops by itself.
constexpr double kMarginSeconds = 120.0;
constexpr double kLargestMarginShare = 0.2;

SlurmAttempt NewAttempt() {
  SlurmAttempt attempt;
  attempt.host = HostName();
  attempt.node = common::EnvironmentValue("SLURMD_NODENAME");
  attempt.job = common::EnvironmentValue("SLURM_JOB_ID");
  attempt.pid = ::getpid();
  return attempt;
}

// Describes in `attempt` how the exception that is being handled ended it.
void Describe(const std::exception& error, SlurmAttempt& attempt) {
  using State = SlurmAttempt::State;
  const bool lost = dynamic_cast<const LeaseLost*>(&error) != nullptr;
  // Input errors are logic errors.
  const bool refused = dynamic_cast<const std::logic_error*>(&error) != nullptr;
  attempt.state = lost      ? State::kLost
                  : refused ? State::kRefused
                            : State::kFailed;
  attempt.message = error.what();
  std::ranges::replace(attempt.message, '\n', ' ');
}

void Describe(int exit_code, SlurmAttempt& attempt) {
  using State = SlurmAttempt::State;
  const bool by_signal = StopSignal() != 0 && StopSignal() != SIGALRM;
  if (exit_code == 0) {
    attempt.state = State::kDone;
  } else if (exit_code != kStoppedEarly && StopSignal() == 0) {
    attempt.state = State::kRefused;
    attempt.message = fmt::format("exit code {}", exit_code);
  } else if (by_signal) {
    attempt.state = State::kStopped;
    attempt.message = fmt::format("stopped by signal {}", StopSignal());
  } else {
    attempt.state = State::kTimeLimit;
    attempt.message = "stopped before the time limit";
  }
}

int TrialsOnRecord(const fs::path& run_folder) {
  try {
    return static_cast<int>(trials::ReadTrials(run_folder).size());
  } catch (const common::InputError&) {
    return 0;
  }
}

JobVerdict Decide(const SlurmOptions& options, const SlurmTaskState& state) {
  const int trials = TrialsOnRecord(RunFolderOf(state.task.job));
  return DecideRetry(options, {.entry = state.entry,
                               .attempt = state.attempt,
                               .detail = state.detail,
                               .failures = state.task.failures,
                               .progressed = trials > state.task.trials});
}

const ProblemSpec& FindProblem(const Manifest& manifest,
                               const std::string& name) {
  const auto found =
      std::ranges::find(manifest.problems, name, &ProblemSpec::name);
  if (found != manifest.problems.end()) {
    return *found;
  }
  throw common::InputError(fmt::format(
      "{}: the experiment no longer has a problem '{}': it was changed while "
      "a trial waited in the queue",
      manifest.path.string(), name));
}

trials::Measurement Measure(const fs::path& folder, TrialTask& task) {
  const Manifest manifest = ReadManifest(
      task.manifest, {.settings = task.settings, .held_out = true});
  const Testbed testbed = MakeTestbed(FindProblem(manifest, task.problem));
  if (testbed.program != nullptr) {
    testbed.program->KeepLogs(folder);
    testbed.program->RunAsGiven(task.check && task.check->yours &&
                                testbed.program->RunsAsGiven());
  }
  if (!testbed.simulated && task.time_minutes > 0) {
    task.request.time_limit_s = std::min(task.request.time_limit_s,
                                         SecondsBeforeLimit(task.time_minutes));
  }
  task.request.interrupted = [] { return StopSignal() != 0; };
  return testbed.runner->Run(task.request);
}

// Guards the folder above that of the experiment, which it returns.
fs::path GuardResults(const fs::path& submission_folder) {
  fs::path experiment = submission_folder.parent_path().parent_path();
  common::GuardFolder(experiment.parent_path());
  return experiment;
}

}  // namespace

double SecondsBeforeLimit(int time_minutes) {
  const double limit_s = 60.0 * time_minutes;
  return limit_s - std::min(kMarginSeconds, kLargestMarginShare * limit_s);
}

int RunTask(const fs::path& submission_folder, int base, const CallSelf& call) {
  GuardResults(submission_folder);
  const std::string task_id = common::EnvironmentValue("SLURM_ARRAY_TASK_ID");
  if (task_id.empty()) {
    throw common::InputError(
        "run-task: SLURM_ARRAY_TASK_ID is not set: only array tasks of Slurm "
        "use this command; use `oppa run`");
  }
  const SlurmTask task =
      ReadTask(submission_folder, base + std::atoi(task_id.c_str()));
  const SlurmSubmission submission = ReadSubmission(submission_folder);
  CatchStopSignals();
  SlurmAttempt attempt = NewAttempt();
  WriteAttempt(submission_folder, task.job.id, attempt);
  if (submission.options.time_minutes > 0) {
    StopAfter(SecondsBeforeLimit(submission.options.time_minutes));
  }
  const auto record = [&] {
    try {
      WriteAttempt(submission_folder, task.job.id, attempt);
    } catch (const std::exception&) {
      // The disk is probably full. The state in Slurm has to suffice.
    }
  };
  try {
    const int code = call(task.job.command);
    Describe(code, attempt);
    record();
    return code;
  } catch (const std::exception& e) {
    Describe(e, attempt);
    record();
    throw;
  }
}

int FinishSubmission(const fs::path& submission_folder, const CallSelf& call,
                     const Note& note) {
  const SlurmSubmission submission = ReadSubmission(submission_folder);
  const fs::path experiment_folder = GuardResults(submission_folder);
  if (submission.cancelled) {
    note("cancelled");
    return 0;
  }
  const std::optional<Queue> queue = ReadQueue(submission.place.experiment);
  std::vector<SlurmTask> retries;
  std::vector<std::string> bad_nodes = submission.place.bad_nodes;
  int given_up = 0;
  for (SlurmTask& task : ReadTasks(submission_folder)) {
    if (IsFinished(RunFolderOf(task.job))) {
      continue;
    }
    const SlurmTaskState state = StateOf(submission, task, queue);
    const JobVerdict verdict = Decide(submission.options, state);
    const bool retry = verdict.action != JobAction::kGiveUp;
    note(fmt::format("{}: {}; {}", task.job.name, verdict.reason,
                     retry ? "retrying" : "given up"));
    if (!retry) {
      ++given_up;
      continue;
    }
    if (verdict.action == JobAction::kRetryOnOtherNodes) {
      ++task.failures;
      bad_nodes = ExtendExclusions(
          bad_nodes, state.attempt ? state.attempt->node : state.node);
    }
    task.trials = TrialsOnRecord(RunFolderOf(task.job));
    retries.push_back(task);
  }
  if (!retries.empty()) {
    SubmitExcluding(
        bad_nodes, note, [&](const std::vector<std::string>& excluded) {
          SlurmSubmission next = submission;
          next.place.token = NewToken();
          next.place.folder = SlurmFolder(experiment_folder) / next.place.token;
          next.place.bad_nodes = excluded;
          next.finish_job_id = 0;
          Slurm(next, experiment_folder).Submit(retries);
        });
  }
  const int report = submission.report.empty() ? 0 : call(submission.report);
  return given_up > 0 ? 1 : report;
}

int RunTrial(const fs::path& folder) {
  CatchStopSignals();
  TrialTask task = ReadTrialTask(folder);
  const std::int64_t job =
      std::atoll(common::EnvironmentValue("SLURM_JOB_ID").c_str());
  TrialResult result;
  try {
    result.measurement = Measure(folder, task);
  } catch (const trials::TrialInterrupted&) {
    return kStoppedEarly;  // the state in Slurm has to suffice
  } catch (const std::exception& e) {
    result.refusal = e.what();
    WriteTrialResult(folder, job, result);
    throw;
  }
  WriteTrialResult(folder, job, result);
  return 0;
}

}  // namespace harness
