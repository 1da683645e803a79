#include "harness/slurm/run_task.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "common/error.h"
#include "harness/provenance.h"
#include "harness/run_one.h"
#include "harness/slurm/slurm.h"
#include "harness/slurm/slurm_state.h"
#include "harness/slurm/slurm_tasks.h"
#include "harness/stop.h"
#include "trials/record.h"

namespace harness {
namespace {

namespace fs = std::filesystem;
using State = SlurmAttempt::State;

// How long before Slurm's limit a run stops by itself.
constexpr double kMarginSeconds = 120.0;
constexpr double kLargestMarginShare = 0.2;

// More nodes than this are not avoided: then it is not the nodes.
constexpr std::size_t kMaxBadNodes = 8;

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

SlurmAttempt NewAttempt() {
  SlurmAttempt attempt;
  attempt.host = HostName();
  attempt.node = Variable("SLURMD_NODENAME");
  attempt.job = Variable("SLURM_JOB_ID");
  attempt.pid = ::getpid();
  return attempt;
}

std::string OneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// The attempt is told how the call ended; an exception goes on from here.
int Call(const std::vector<std::string>& command,
         const CallSelf& call,
         SlurmAttempt& attempt) {
  try {
    const int code = call(command);
    if (code == 0) {
      attempt.state = State::kDone;
    } else if (code == kStoppedEarly) {
      attempt.state = State::kStopped;
      attempt.message = StopSignal() != 0
                            ? fmt::format("stopped by signal {}", StopSignal())
                            : "stopped before the time limit";
    } else {
      attempt.state = State::kRefused;
      attempt.message = fmt::format("exit code {}", code);
    }
    return code;
  } catch (const LeaseLost& e) {
    attempt.state = State::kLost;
    attempt.message = OneLine(e.what());
    throw;
  } catch (const std::logic_error& e) {  // input errors are among them
    attempt.state = State::kRefused;
    attempt.message = OneLine(e.what());
    throw;
  } catch (const std::exception& e) {
    attempt.state = State::kFailed;
    attempt.message = OneLine(e.what());
    throw;
  }
}

// Writes the attempt's end, also when an exception passes.
class AttemptRecord {
 public:
  AttemptRecord(fs::path folder, int id) : folder_(std::move(folder)), id_(id) {
    WriteAttempt(folder_, id_, attempt);
  }
  ~AttemptRecord() {
    try {
      WriteAttempt(folder_, id_, attempt);
    } catch (const std::exception&) {
      // The disk is full, most likely: Slurm's word has to do.
    }
  }
  AttemptRecord(const AttemptRecord&) = delete;
  AttemptRecord& operator=(const AttemptRecord&) = delete;

  SlurmAttempt attempt = NewAttempt();

 private:
  fs::path folder_;
  int id_;
};

fs::path RunFolderOf(const Job& job) { return job.log.parent_path(); }

int TrialsOnRecord(const fs::path& run_folder) {
  try {
    return static_cast<int>(trials::ReadTrials(run_folder).size());
  } catch (const common::InputError&) {
    return 0;
  }
}

// What to do about a run that is not done.
struct Verdict {
  bool again = false;
  bool machine = false;  // it was the machine's fault
  std::string why;
};

Verdict GiveUp(std::string why) { return {false, false, std::move(why)}; }

Verdict AfterTimeLimit(const SlurmOptions& options,
                       const SlurmTaskState& state) {
  if (!options.requeue_until_done) {
    return GiveUp(
        "time limit; it goes on with requeue_until_done, or when "
        "`oppa run` is given again");
  }
  if (TrialsOnRecord(RunFolderOf(state.task.job)) <= state.task.trials) {
    return GiveUp("time limit, and not one trial fitted into it");
  }
  return {true, false, "time limit"};
}

Verdict Judge(const SlurmOptions& options, const SlurmTaskState& state) {
  const std::string slurm_state = state.entry ? state.entry->state : "";
  const State own = state.attempt ? state.attempt->state : State::kRunning;
  if (slurm_state == "CANCELLED") {
    return GiveUp("cancelled");
  }
  if (own == State::kRefused) {
    return GiveUp(state.attempt->message);
  }
  if (slurm_state == "OUT_OF_MEMORY") {
    return GiveUp(state.entry->Explain());
  }
  if (slurm_state == "TIMEOUT" || slurm_state == "DEADLINE") {
    return AfterTimeLimit(options, state);
  }
  const bool preempted = state.entry && state.entry->IsInfrastructureFailure();
  if (own == State::kStopped && !preempted) {
    return state.attempt->message.find("time limit") != std::string::npos
               ? AfterTimeLimit(options, state)
               : GiveUp(state.attempt->message);
  }
  if (state.task.failures >= options.retries) {
    return GiveUp(fmt::format(
        "{}; tried {} times", state.detail, state.task.failures + 1));
  }
  return {true, true, state.detail};
}

// The node where it failed: in the job's own words, or in Slurm's.
void AddBadNode(const SlurmTaskState& state, std::set<std::string>& nodes) {
  const std::string node = state.attempt ? state.attempt->node : state.node;
  const bool is_one =
      !node.empty() && std::all_of(node.begin(), node.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
               (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
      });
  if (is_one) {
    nodes.insert(node);
  }
}

void Resubmit(const SlurmSubmission& submission,
              const fs::path& experiment_folder,
              const std::vector<SlurmTask>& tasks,
              const std::set<std::string>& bad_nodes) {
  SlurmSubmission next = submission;
  next.place.token = NewToken();
  next.place.folder = SlurmFolder(experiment_folder) / next.place.token;
  next.finish_job_id = 0;
  std::set<std::string> nodes(submission.place.bad_nodes.begin(),
                              submission.place.bad_nodes.end());
  nodes.insert(bad_nodes.begin(), bad_nodes.end());
  next.place.bad_nodes.clear();
  if (nodes.size() <= kMaxBadNodes) {
    next.place.bad_nodes.assign(nodes.begin(), nodes.end());
  }
  const auto is_done = [](const Job& job) {
    return IsFinished(RunFolderOf(job));
  };
  try {
    Slurm(next, experiment_folder, is_done).Submit(tasks);
  } catch (const std::runtime_error& e) {
    if (next.place.bad_nodes.empty()) {
      throw;
    }
    fmt::print("{}\nonce more, on any node\n", e.what());
    next.place.bad_nodes.clear();
    next.place.token = NewToken();
    next.place.folder = SlurmFolder(experiment_folder) / next.place.token;
    Slurm(next, experiment_folder, is_done).Submit(tasks);
  }
}

}  // namespace

double SecondsBeforeLimit(int time_minutes) {
  const double limit_s = 60.0 * time_minutes;
  return limit_s - std::min(kMarginSeconds, kLargestMarginShare * limit_s);
}

int RunTask(const fs::path& submission_folder, int base, const CallSelf& call) {
  const std::string task_id = Variable("SLURM_ARRAY_TASK_ID");
  if (task_id.empty()) {
    throw common::InputError(
        "run-task: SLURM_ARRAY_TASK_ID is not set: this is what array tasks "
        "of Slurm call; people call `oppa run`");
  }
  const SlurmTask task =
      ReadTask(submission_folder, base + std::atoi(task_id.c_str()));
  const SlurmSubmission submission = ReadSubmission(submission_folder);
  CatchStopSignals();
  AttemptRecord record(submission_folder, task.job.id);
  std::vector<std::string> command = task.job.command;
  if (submission.options.time_minutes > 0) {
    command.emplace_back("--stop-after-s");
    command.push_back(fmt::format(
        "{:.0f}", SecondsBeforeLimit(submission.options.time_minutes)));
  }
  return Call(command, call, record.attempt);
}

int FinishSubmission(const fs::path& submission_folder, const CallSelf& call) {
  const SlurmSubmission submission = ReadSubmission(submission_folder);
  const fs::path experiment_folder =
      submission_folder.parent_path().parent_path();
  if (submission.cancelled) {
    fmt::print("cancelled\n");
    return 0;
  }
  const std::optional<Queue> queue = ReadQueue(submission.JobIds());
  std::vector<SlurmTask> again;
  std::set<std::string> bad_nodes;
  int given_up = 0;
  for (SlurmTask& task : ReadTasks(submission_folder)) {
    if (IsFinished(RunFolderOf(task.job))) {
      continue;
    }
    const SlurmTaskState state = StateOf(submission, task, queue);
    const Verdict verdict = Judge(submission.options, state);
    fmt::print("{}: {}; {}\n",
               task.job.name,
               verdict.why,
               verdict.again ? "again" : "given up");
    if (!verdict.again) {
      ++given_up;
      continue;
    }
    task.failures += verdict.machine ? 1 : 0;
    task.trials = TrialsOnRecord(RunFolderOf(task.job));
    again.push_back(task);
    if (verdict.machine) {
      AddBadNode(state, bad_nodes);
    }
  }
  if (!again.empty()) {
    Resubmit(submission, experiment_folder, again, bad_nodes);
  }
  const int report = submission.report.empty() ? 0 : call(submission.report);
  return given_up > 0 ? 1 : report;
}

}  // namespace harness
