// run, run-one.

#include "cli/run.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "cli/command_line.h"
#include "cli/slurm.h"
#include "cli/verb_options.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/files.h"
#include "common/output.h"
#include "common/parallel.h"
#include "common/process.h"
#include "common/secrets.h"
#include "harness/experiment.h"
#include "harness/local_pool.h"
#include "harness/provenance.h"
#include "harness/records/import.h"
#include "harness/records/inputs.h"
#include "harness/run_one.h"
#include "harness/slurm/run_task.h"
#include "harness/slurm/slurm.h"
#include "harness/status.h"
#include "harness/stop.h"
#include "harness/testbeds/testbeds.h"
#include "plots/experiment_records.h"

namespace cli {
namespace {

constexpr int kMostJobs = 4096;

// The command of one run's worker. It includes the overrides, because they
// define the methods and repeats.
std::vector<std::string> WorkerCommand(const VerbOptions& options,
                                       const harness::RunSpec& run) {
  std::vector<std::string> command = {harness::ProgramPath(),    "run-one",
                                      options.manifest.string(), "--results",
                                      options.results.string(),  "--method",
                                      run.method->name,          "--repeat",
                                      std::to_string(run.repeat)};
  const auto add = [&command](const std::string& flag,
                              const std::string& value) {
    command.push_back(flag);
    command.push_back(value);
  };
  if (!options.slurm || options.trial_per_job) {
    add("--parent", std::to_string(::getpid()));
  }
  if (options.trial_per_job) {
    command.emplace_back("--trial-per-job");
  }
  if (!run.problem->name.empty()) {
    add("--problem", run.problem->name);
  }
  if (options.overrides.repeats) {
    add("--repeats", std::to_string(*options.overrides.repeats));
  }
  if (!options.overrides.methods.empty()) {
    add("--methods",
        fmt::format("{}", fmt::join(options.overrides.methods, ",")));
  }
  for (const std::string& setting : options.overrides.settings) {
    add("--set", setting);
  }
  if (options.overrides.held_out) {
    command.emplace_back("--held-out");
  }
  return command;
}

// Threads for the suggestions of each run: the number that the user sets, or a
// fair share of the cores when fewer runs than cores are active at a time.
int ThreadsOfEach(int workers, std::size_t jobs) {
  if (std::getenv("OPPA_THREADS") != nullptr) {
    return harness::SuggestionThreads();
  }
  const int running = std::min(workers, static_cast<int>(jobs));
  return std::max(1, common::Cores() / running);
}

// Waits until the submitted jobs have ended or a signal arrives. Returns the
// number of failures.
int Wait(std::size_t jobs, harness::Dispatcher& dispatcher,
         harness::Progress& progress) {
  std::size_t ended = 0;
  int failed = 0;
  while (ended < jobs && harness::StopSignal() == 0) {
    progress.Update(common::SteadySeconds());
    for (const harness::JobReport& report : dispatcher.Poll(0.2)) {
      if (report.state == harness::JobReport::State::kStarted) {
        continue;
      }
      ++ended;
      failed += report.state == harness::JobReport::State::kFailed ? 1 : 0;
      progress.RunEnded(report.id, report.detail);
    }
  }
  progress.Clear();
  return failed;
}

// Runs at a time. A search whose trials are remote jobs mostly waits. Trials on
// a real clock would slow each other down on the devices that they share.
int Workers(const VerbOptions& options, const RunVerbOptions& run_options,
            bool simulated) {
  constexpr int kSearchesThatWait = 8;
  if (run_options.jobs > 0) {
    return run_options.jobs;
  }
  if (!options.trial_per_job && !simulated) {
    return 1;
  }
  return std::max(options.trial_per_job ? kSearchesThatWait : 1,
                  common::Cores());
}

// Finished runs are kept; a changed program would give different results.
void NoteOtherCommits(const std::vector<harness::RecordedRun>& recorded) {
  const auto others =
      std::ranges::count_if(recorded, [](const harness::RecordedRun& run) {
        return run.finished && run.commit != harness::BuildCommit().hash;
      });
  if (others > 0) {
    fmt::print(
        "note: {} finished runs are from another commit and are kept; another "
        "--results folder makes new ones\n",
        others);
  }
}

}  // namespace

int SubmitRuns(const VerbOptions& options, const RunVerbOptions& run_options,
               const harness::Experiment& experiment,
               const std::vector<harness::Job>& missing) {
  const harness::Manifest& manifest = experiment.manifest;
  harness::SlurmSubmission submission = NewSubmission(
      options, experiment, harness::NewToken(), !run_options.no_report);
  if (run_options.jobs > 0) {
    submission.options.max_running = run_options.jobs;
  }
  const std::vector<harness::Job> jobs =
      WithNeeds(submission.options, experiment,
                NotInTheQueue(experiment.folder, missing));
  if (jobs.size() < missing.size()) {
    fmt::print("{} runs are in the queue already\n",
               missing.size() - jobs.size());
  }
  if (jobs.empty()) {
    fmt::print("{}: nothing to submit\n", manifest.name);
    return missing.empty() && !run_options.no_report
               ? PrintReport(experiment.folder, {})
               : 0;
  }
  harness::Slurm slurm(submission, experiment.folder);
  slurm.Submit(jobs);
  const std::vector<std::int64_t> ids = slurm.submission().JobIds();
  fmt::print("{}: {} of {} runs submitted as job{} {}, {} as job {}\n",
             manifest.name, jobs.size(), experiment.runs.size(),
             ids.size() > 2 ? "s" : "",
             fmt::join(ids.begin(), ids.end() - 1, ", "),
             run_options.no_report ? "retries" : "report", ids.back());
  if (!run_options.wait) {
    return 0;
  }
  harness::Progress progress(experiment, common::StandardDisplay().live,
                             stdout);
  const int failed = Wait(jobs.size(), slurm, progress);
  if (harness::StopSignal() != 0) {
    fmt::print("stopped waiting; the jobs continue, `oppa cancel` ends them\n");
    return 128 + harness::StopSignal();
  }
  if (failed > 0) {
    fmt::print("{} of {} runs failed; `oppa logs` shows their output\n", failed,
               jobs.size());
  }
  const std::string report = OutputOfLastJob(experiment.folder);
  if (!run_options.no_report) {
    fmt::print("{}", report);
  }
  const int code =
      PrintFailures(plots::LoadExperiment(experiment.folder).failures);
  return failed > 0 ? 1 : code;
}

std::vector<harness::Job> MissingJobs(
    const VerbOptions& options, const harness::Experiment& experiment,
    const std::vector<harness::RecordedRun>& recorded) {
  const std::vector<harness::RunSpec>& runs = experiment.runs;
  std::vector<harness::Job> jobs;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!recorded[i].finished) {
      jobs.push_back({.id = static_cast<int>(i),
                      .name = runs[i].Name(),
                      .command = WorkerCommand(options, runs[i]),
                      .log = runs[i].Folder(experiment.folder) / "log.txt"});
    }
  }
  return jobs;
}

int RunExperiment(const VerbOptions& options,
                  const RunVerbOptions& run_options) {
  const harness::Experiment experiment = OpenExperiment(options);
  harness::CheckManifest(experiment);
  if (options.trial_per_job && !options.slurm) {
    throw common::InputError("--trial-per-job: needs --dispatch slurm");
  }
  harness::CatchStopSignals();
  std::vector<harness::RecordedRun> recorded =
      harness::PrepareRecords(experiment, options.accept_changed);
  fmt::print("{}", harness::HeldOutNote(experiment.manifest));
  if (!options.imports.empty()) {
    PrintNotes(harness::ImportTrials(experiment, options.imports));
    recorded.assign(recorded.size(), {});  // an import unfinishes every run
  }
  harness::WriteExperiment(experiment);
  harness::NoteFinishedRuns(experiment);
  NoteOtherCommits(recorded);
  const std::vector<harness::Job> jobs =
      MissingJobs(options, experiment, recorded);
  if (options.slurm && !options.trial_per_job) {
    return SubmitRuns(options, run_options, experiment, jobs);
  }
  const int workers =
      Workers(options, run_options, experiment.manifest.simulated);
  int failed = 0;
  if (!jobs.empty() && harness::StopSignal() == 0) {
    fmt::print("{}: {} of {} runs to do, {} at a time\n",
               experiment.manifest.name, jobs.size(), experiment.runs.size(),
               workers);
    harness::Progress progress(experiment, common::StandardDisplay().live,
                               stdout);
    harness::LocalPool pool(workers, ThreadsOfEach(workers, jobs.size()));
    pool.Submit(jobs);
    failed = Wait(jobs.size(), pool, progress);
  }
  if (harness::StopSignal() != 0) {
    fmt::print("interrupted; rerun the same command to resume\n");
    return 128 + harness::StopSignal();
  }
  if (failed > 0) {
    fmt::print(
        "{} of {} runs failed; their output is in log.txt of each run's "
        "folder under {}\n",
        failed, jobs.size(), experiment.folder.string());
  }
  const int code =
      run_options.no_report
          ? PrintFailures(plots::LoadExperiment(experiment.folder).failures)
          : PrintReport(experiment.folder, {});
  return failed > 0 ? 1 : code;
}

namespace {

// Executes one run in this process, as started by `run` and by Slurm jobs.
struct RunOneOptions {
  std::string method;
  int repeat = 1;
  int parent = 0;         // process id: end when it ends; 0: ignore
  double lease_s = 20.0;  // see lease.h
  std::string command;
};

int RunOneVerb(const VerbOptions& options, const RunOneOptions& run) {
  if (run.parent != 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != run.parent) {
      return 1;  // it ended before this line
    }
  }
  const harness::Experiment experiment = OpenExperiment(options);
  const harness::RunSpec spec = harness::FindRun(
      experiment.manifest, options.problem, run.method, run.repeat);
  if (!common::EntryExists(experiment.folder / "experiment.json")) {
    harness::WriteExperiment(experiment);  // nobody called `run` before
  }
  harness::RunConditions conditions;
  conditions.command = run.command;
  conditions.lease_timeout_s = run.lease_s;
  conditions.stop = [] { return harness::StopSignal() != 0; };
  if (options.trial_per_job) {
    harness::CatchStopSignals();  // so that the job is cancelled
    conditions.make_remote_runner = [&] {
      return MakeTrialJobs(experiment, spec);
    };
    conditions.make_clock = harness::MakeRealClock;
  }
  return harness::RunOne(experiment, spec, conditions) ? 0
                                                       : harness::kStoppedEarly;
}

// The command line for records, without the parent's process id, so that it
// can be repeated.
std::string CommandLine(Words words) {
  const auto parent = std::ranges::find(words, "--parent");
  if (parent != words.end()) {
    words.erase(parent, parent + 2);
  }
  return common::ShellLine(common::WithoutSecrets(std::move(words)));
}

Verb DefineRun() {
  const auto all = std::make_shared<Bound<RunVerbOptions>>();
  RunVerbOptions& run = all->own;
  return {
      .group = kExperiments,
      .name = "run",
      .summary = "complete all runs of an experiment, then write the report",
      .description =
          "Completed runs are kept and interrupted ones resume, so rerun the "
          "same command after an interruption. A larger budget continues "
          "completed runs. Several processes can work on one experiment.",
      .options =
          RecordOptions(all->verb) +
          Options{Bind("--jobs N",
                       "runs at a time (default: one per core, and one "
                       "with a training program)",
                       run.jobs, Range{1, kMostJobs}),
                  Bind("--no-report", "write no tables and figures",
                       run.no_report)} +
          GrowthOptions(all->verb) + DispatchOptions(all->verb) +
          Options{Bind("--wait", "with slurm: show progress until all jobs end",
                       run.wait),
                  Bind("--requeue-until-done",
                       "with slurm: continue in a new job after a time limit",
                       all->verb.requeue_until_done)},
      .examples = {"oppa run experiments/smoke.toml",
                   "oppa run experiments/qwen-8gpu.toml --methods oppa,random "
                   "--repeats 3",
                   "oppa run experiments/smoke.toml --dispatch slurm --wait"},
      .run = [all](const Words&) {
        return RunExperiment(all->verb, all->own);
      }};
}

Verb DefineRunOne() {
  const auto all = std::make_shared<Bound<RunOneOptions>>();
  RunOneOptions& run = all->own;
  return {.name = "run-one",
          .summary = "complete one run in this process",
          .options = RecordOptions(all->verb) + DispatchOptions(all->verb) +
                     Options{ProblemOption(all->verb),
                             Required(Bind("--method NAME", "", run.method)),
                             Required(Bind("--repeat N", "", run.repeat)),
                             Bind("--parent PID", "", run.parent),
                             Bind("--lease-s SECONDS", "", run.lease_s)},
          .run = [all](const Words& words) {
            all->own.command = CommandLine(words);
            return RunOneVerb(all->verb, all->own);
          }};
}

}  // namespace

Verbs RunVerbs() { return {DefineRun(), DefineRunOne()}; }

}  // namespace cli
