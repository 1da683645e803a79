// run, run-one, status, report.

#include "cli/experiment.h"

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
#include "cli/worker_jobs.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/parallel.h"
#include "common/text.h"
#include "harness/backends.h"
#include "harness/check.h"
#include "harness/import.h"
#include "harness/inputs.h"
#include "harness/local_pool.h"
#include "harness/plan.h"
#include "harness/progress.h"
#include "harness/provenance.h"
#include "harness/run_one.h"
#include "harness/slurm/run_task.h"
#include "harness/slurm/slurm.h"
#include "harness/slurm/task_status.h"
#include "harness/status.h"
#include "harness/stop.h"
#include "plots/experiment_records.h"
#include "plots/report.h"

namespace cli {
namespace {

constexpr int kMostJobs = 4096;

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
int Wait(std::size_t jobs,
         harness::Dispatcher& dispatcher,
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
int Workers(const VerbOptions& options,
            const RunVerbOptions& run_options,
            const harness::Manifest& manifest) {
  constexpr int kSearchesThatWait = 8;
  if (run_options.jobs > 0) {
    return run_options.jobs;
  }
  if (!options.trial_per_job &&
      !harness::IsSimulated(manifest.problems.front())) {
    return 1;
  }
  return std::max(options.trial_per_job ? kSearchesThatWait : 1,
                  common::Cores());
}

// Finished runs are kept; a changed program would give different results.
void NoteOtherCommits(const std::vector<harness::RecordedRun>& recorded) {
  const auto others = std::count_if(
      recorded.begin(), recorded.end(), [](const harness::RecordedRun& run) {
        return run.finished && run.commit != harness::BuildCommit().hash;
      });
  if (others > 0) {
    fmt::print(
        "note: {} finished runs are from another commit and are kept; another "
        "--results folder makes new ones\n",
        others);
  }
}

// Prints why the records are not a complete result. Returns the exit code.
int PrintFailures(const std::vector<std::string>& failures) {
  for (const std::string& failure : failures) {
    fmt::print(stderr, "oppa: {}\n", common::Printable(failure));
  }
  return failures.empty() ? 0 : 1;
}

void PrintNotes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) {
    fmt::print("note: {}\n", common::Printable(note));
  }
}

int PrintReport(const std::filesystem::path& folder,
                const plots::ReportOptions& options) {
  const plots::ReportOutcome outcome = plots::Report(folder, options);
  fmt::print("{}", outcome.summary);
  PrintNotes(outcome.notes);
  fmt::print("{} files in {}\n",
             outcome.files.size(),
             common::Printable(folder.string()));
  const int code = PrintFailures(outcome.failures);
  return outcome.pictures_failed ? 1 : code;
}

// Submits the runs to Slurm; with --wait, shows their progress until the end.
int RunSlurm(const VerbOptions& options,
             const RunVerbOptions& run_options,
             const harness::Manifest& manifest,
             const std::vector<harness::Job>& missing) {
  const std::filesystem::path folder = ExperimentFolder(options, manifest);
  harness::SlurmSubmission submission = NewSubmission(
      options, manifest, harness::NewToken(), !run_options.no_report);
  if (run_options.jobs > 0) {
    submission.options.max_running = run_options.jobs;
  }
  const std::vector<harness::RunSpec> runs = harness::RunMatrix(manifest);
  const std::vector<harness::Job> jobs =
      WithNeeds(submission.options, runs, NotInTheQueue(folder, missing));
  if (jobs.size() < missing.size()) {
    fmt::print("{} runs are in the queue already\n",
               missing.size() - jobs.size());
  }
  if (jobs.empty()) {
    fmt::print("{}: nothing to submit\n", manifest.name);
    return missing.empty() && !run_options.no_report ? PrintReport(folder, {})
                                                     : 0;
  }
  harness::Slurm slurm(submission, folder, [](const harness::Job& job) {
    return harness::IsFinished(job.log.parent_path());
  });
  slurm.Submit(jobs);
  const std::vector<std::int64_t> ids = slurm.submission().JobIds();
  fmt::print("{}: {} of {} runs submitted as job{} {}, report as job {}\n",
             manifest.name,
             jobs.size(),
             runs.size(),
             ids.size() > 2 ? "s" : "",
             fmt::join(ids.begin(), ids.end() - 1, ", "),
             ids.back());
  if (!run_options.wait) {
    return 0;
  }
  harness::Progress progress(
      manifest, folder, ::isatty(STDOUT_FILENO) != 0, stdout);
  const int failed = Wait(jobs.size(), slurm, progress);
  if (harness::StopSignal() != 0) {
    fmt::print("stopped waiting; the jobs continue, `oppa cancel` ends them\n");
    return 128 + harness::StopSignal();
  }
  if (failed > 0) {
    fmt::print("{} of {} runs failed; `oppa logs` shows their output\n",
               failed,
               jobs.size());
  }
  WaitForLastJob(folder);
  if (!run_options.no_report) {
    fmt::print("{}", LastJobOutput(folder));
  }
  const int code = PrintFailures(plots::LoadExperiment(folder).failures);
  return failed > 0 ? 1 : code;
}

}  // namespace

int RunExperiment(const VerbOptions& options,
                  const RunVerbOptions& run_options) {
  const harness::Manifest manifest =
      harness::ReadManifest(options.manifest, options.overrides);
  (void)harness::CheckManifest(manifest);
  const std::filesystem::path folder = ExperimentFolder(options, manifest);
  if (options.trial_per_job && !options.slurm) {
    throw common::InputError("--trial-per-job: needs --dispatch slurm");
  }
  harness::CatchStopSignals();
  std::vector<harness::RecordedRun> recorded =
      harness::PrepareRecords(manifest, folder, options.accept_changed);
  const std::vector<harness::RunSpec> runs = harness::RunMatrix(manifest);
  fmt::print("{}", harness::HeldOutNote(manifest));
  if (!options.imports.empty()) {
    PrintNotes(harness::ImportTrials(manifest, folder, options.imports));
    recorded = harness::RecordedRuns(runs, folder);
  }
  harness::WriteExperiment(manifest, folder);
  NoteOtherCommits(recorded);
  const std::vector<harness::Job> jobs =
      MissingJobs(options, runs, recorded, folder);
  if (options.slurm && !options.trial_per_job) {
    return RunSlurm(options, run_options, manifest, jobs);
  }
  const int workers = Workers(options, run_options, manifest);
  int failed = 0;
  if (!jobs.empty() && harness::StopSignal() == 0) {
    fmt::print("{}: {} of {} runs to do, {} at a time\n",
               manifest.name,
               jobs.size(),
               runs.size(),
               workers);
    harness::Progress progress(
        manifest, folder, ::isatty(STDOUT_FILENO) != 0, stdout);
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
        failed,
        jobs.size(),
        common::Printable(folder.string()));
  }
  const int code = run_options.no_report
                       ? PrintFailures(plots::LoadExperiment(folder).failures)
                       : PrintReport(folder, {});
  return failed > 0 ? 1 : code;
}

namespace {

// Executes one run in this process, as started by `run` and by Slurm jobs.
struct RunOneOptions {
  std::string method;
  int repeat = 1;
  int parent = 0;             // process id: end when it ends; 0: ignore
  double lease_s = 20.0;      // see lease.h
  double stop_after_s = 0.0;  // stop before the next trial; 0: never
  std::string command;
};

int RunOneVerb(const VerbOptions& options, const RunOneOptions& run) {
  if (run.parent != 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != run.parent) {
      return 1;  // it ended before this line
    }
  }
  const harness::Manifest manifest =
      harness::ReadManifest(options.manifest, options.overrides);
  const harness::RunSpec spec =
      harness::FindRun(manifest, options.problem, run.method, run.repeat);
  const double stop_s = common::SteadySeconds() + run.stop_after_s;
  harness::RunConditions conditions;
  conditions.command = run.command;
  conditions.lease_timeout_s = run.lease_s;
  conditions.stop = [&run, stop_s] {
    return harness::StopSignal() != 0 ||
           (run.stop_after_s > 0.0 && common::SteadySeconds() >= stop_s);
  };
  if (options.trial_per_job) {
    harness::CatchStopSignals();  // so that the job is cancelled
    conditions.make_remote_runner = [&](const harness::Backend& backend) {
      return MakeTrialJobs(options, manifest, spec, backend);
    };
  }
  const bool done = harness::RunOne(
      manifest, spec, ExperimentFolder(options, manifest), conditions);
  return done ? 0 : harness::kStoppedEarly;
}

// Prints what is wrong with damaged runs. Returns the exit code.
int PrintDamage(const std::vector<harness::RunStatus>& runs) {
  std::vector<std::string> damage;
  for (const harness::RunStatus& status : runs) {
    if (status.state == harness::RunState::kDamaged) {
      damage.push_back(status.message);
    }
  }
  return PrintFailures(damage);
}

int Status(const VerbOptions& options, bool all) {
  const harness::Manifest manifest =
      harness::ReadManifest(options.manifest, options.overrides);
  const std::filesystem::path folder = ExperimentFolder(options, manifest);
  std::vector<harness::RunStatus> runs = harness::ReadStatus(manifest, folder);
  harness::AddQueue(manifest, folder, runs);
  if (options.json) {
    fmt::print("{}", harness::StatusJson(manifest, runs));
    return PrintDamage(runs);
  }
  if (all) {
    fmt::print("{}\n", harness::FormatRuns(runs));
  }
  fmt::print("{}", harness::FormatStatus(manifest, runs));
  return PrintDamage(runs);
}

int Import(const VerbOptions& options) {
  const harness::Manifest manifest =
      harness::ReadManifest(options.manifest, options.overrides);
  (void)harness::CheckManifest(manifest);
  const std::filesystem::path folder = ExperimentFolder(options, manifest);
  PrintNotes(harness::ImportTrials(manifest, folder, options.imports));
  harness::WriteExperiment(manifest, folder);
  return 0;
}

int Report(const VerbOptions& options, const plots::ReportOptions& report) {
  const harness::Manifest manifest =
      harness::ReadManifest(options.manifest, options.overrides);
  return PrintReport(ExperimentFolder(options, manifest), report);
}

// The command line for records, without the parent's process id, so that it
// can be repeated.
std::string CommandLine(const Words& words) {
  Words kept;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--parent") {
      ++i;
    } else {
      kept.push_back(words[i]);
    }
  }
  return fmt::format("{}", fmt::join(kept, " "));
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
                       run.jobs,
                       Range{1, kMostJobs}),
                  Bind("--no-report",
                       "write no tables and figures",
                       run.no_report)} +
          GrowthOptions(all->verb) + DispatchOptions(all->verb) +
          Options{Bind("--wait",
                       "with slurm: show progress until all jobs end",
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
  return {
      .name = "run-one",
      .summary = "complete one run in this process",
      .options = RecordOptions(all->verb) + DispatchOptions(all->verb) +
                 Options{ProblemOption(all->verb),
                         Required(Bind("--method NAME", "", run.method)),
                         Required(Bind("--repeat N", "", run.repeat)),
                         Bind("--parent PID", "", run.parent),
                         Bind("--lease-s SECONDS", "", run.lease_s),
                         Bind("--stop-after-s SECONDS", "", run.stop_after_s)},
      .run = [all](const Words& words) {
        all->own.command = CommandLine(words);
        return RunOneVerb(all->verb, all->own);
      }};
}

Verb DefineStatus() {
  const auto all = std::make_shared<Bound<bool>>();
  return {.group = kExperiments,
          .name = "status",
          .summary = "show the progress of each run",
          .options = RecordOptions(all->verb) +
                     Options{Bind("--all", "list every run", all->own),
                             JsonFlag(all->verb)},
          .examples = {"oppa status experiments/smoke.toml --all"},
          .run = [all](const Words&) { return Status(all->verb, all->own); }};
}

int Check(const std::filesystem::path& results) {
  const harness::CheckSummary summary = harness::CheckRecordsBelow(results);
  for (const std::string& note : summary.notes) {
    fmt::print("note: {}\n", common::Printable(note));
  }
  fmt::print("{}: {} finished runs are whole, {} are unfinished",
             common::Printable(results.string()),
             summary.finished,
             summary.unfinished);
  if (summary.unsealed > 0) {
    fmt::print(", {} were finished by a version without seals",
               summary.unsealed);
  }
  fmt::print("; {} damaged\n", summary.damage.size());
  return PrintFailures(summary.damage);
}

Verb DefineCheck() {
  const auto options = std::make_shared<VerbOptions>();
  return {.group = kExperiments,
          .name = "check",
          .summary = "check that no record was lost, damaged or exchanged",
          .description =
              "Reads every run below FOLDER (default: results) and compares "
              "the files of finished runs with their seals. Changes nothing.",
          .options = {Bind(
              "FOLDER", "results, or a part of them", options->results)},
          .examples = {"oppa check results"},
          .run = [options](const Words&) { return Check(options->results); }};
}

Verb DefineImport() {
  const auto all = std::make_shared<Bound<Words>>();
  Option tables = Required(
      MakeOption("CSV",
                 "tables with a column per parameter, step_time_s or a "
                 "throughput, peak_memory_gb and outcome",
                 [all](const std::string& text) {
                   all->verb.imports.emplace_back(text);
                 }));
  tables.repeated = true;
  return {.group = kExperiments,
          .name = "import",
          .summary = "add trials that were measured elsewhere to a search",
          .description =
              "Every run of the experiment gets the trials as observations, so "
              "that they are not measured again. Continue with `oppa run`.",
          .options = {ManifestArgument(all->verb),
                      tables,
                      ResultsOption(all->verb),
                      SetOption(all->verb)},
          .examples = {"oppa import tune.toml earlier.csv"},
          .run = [all](const Words&) { return Import(all->verb); }};
}

Verb DefineReport() {
  const auto all = std::make_shared<Bound<plots::ReportOptions>>();
  return {.group = kExperiments,
          .name = "report",
          .summary = "write tables and figures from the records",
          .options = {ManifestArgument(all->verb),
                      ResultsOption(all->verb),
                      SetOption(all->verb),
                      Bind("--figures A,B,...",
                           "draw only these figures",
                           all->own.figures),
                      Bind("--reference METHOD",
                           "compare the others with this method (default: "
                           "oppa, or the first)",
                           all->own.reference)},
          .examples = {"oppa report experiments/smoke.toml",
                       "oppa report experiments/qwen-8gpu.toml --figures "
                       "throughput-time"},
          .run = [all](const Words&) { return Report(all->verb, all->own); }};
}

}  // namespace

Verbs ExperimentVerbs() {
  return {DefineRun(),
          DefineRunOne(),
          DefineStatus(),
          DefineCheck(),
          DefineImport(),
          DefineReport()};
}

}  // namespace cli
