// run and matrix with --dispatch slurm, cancel, logs, run-task, contain.

#include "cli/slurm.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/verb_options.h"
#include "common/error.h"
#include "common/files.h"
#include "common/process.h"
#include "common/ranges.h"
#include "harness/experiment.h"
#include "harness/local_pool.h"
#include "harness/provenance.h"
#include "harness/records/journal.h"
#include "harness/slurm/run_task.h"
#include "harness/slurm/slurm.h"
#include "harness/slurm/slurm_queue.h"
#include "harness/slurm/task_status.h"
#include "harness/slurm/trial_jobs.h"
#include "harness/stop.h"
#include "jobs/tune/tune_job.h"
#include "trials/programs/rank_launch.h"

namespace cli {
namespace {

namespace fs = std::filesystem;
using common::InputError;

constexpr int kLogLines = 200;

// Nodes and GPUs that a run on a testbed occupies.
void AddNeeds(const harness::SlurmOptions& options,
              const harness::Testbed& testbed, harness::Job& job) {
  using Resources = harness::SlurmOptions::Resources;
  if (testbed.simulated && options.resources != Resources::kCluster) {
    return;
  }
  const trials::Machine& machine = testbed.machine;
  const bool cpu = options.resources == Resources::kCpu;
  job.nodes = machine.gpus() / machine.gpus_per_node();
  job.gpus_per_node = cpu ? 0 : machine.gpus_per_node();
}

void PrintLine(const std::string& line) { fmt::print("{}\n", line); }

}  // namespace

harness::SlurmSubmission NewSubmission(const VerbOptions& options,
                                       const harness::Experiment& experiment,
                                       const std::string& token, bool report) {
  harness::SlurmSubmission submission;
  submission.options = harness::SlurmOptionsFor(experiment.manifest.slurm);
  if (options.requeue_until_done) {
    submission.options.requeue_until_done = true;
  }
  submission.place.program = harness::ProgramPath();
  submission.place.directory = fs::current_path();
  submission.place.folder =
      fs::absolute(harness::SlurmFolder(experiment.folder) / token);
  submission.place.experiment = experiment.manifest.name;
  submission.place.token = token;
  if (report) {
    submission.report = {submission.place.program.string(), "report",
                         options.manifest.string(), "--results",
                         options.results.string()};
    for (const std::string& setting : options.overrides.settings) {
      submission.report.insert(submission.report.end(), {"--set", setting});
    }
    if (options.overrides.held_out) {
      submission.report.emplace_back("--held-out");
    }
  }
  return submission;
}

std::vector<harness::Job> WithNeeds(const harness::SlurmOptions& options,
                                    const harness::Experiment& experiment,
                                    std::vector<harness::Job> jobs) {
  for (harness::Job& job : jobs) {
    const harness::ProblemSpec& problem = *experiment.runs[job.id].problem;
    AddNeeds(options, experiment.testbeds.Of(problem), job);
    job.log = fs::absolute(job.log);
  }
  return jobs;
}

std::string FormatTrialSubmission(const harness::SlurmSubmission& submission,
                                  const harness::Experiment& experiment) {
  harness::Job needs;
  AddNeeds(submission.options,
           experiment.testbeds.Of(experiment.manifest.problems.front()), needs);
  harness::SlurmPlace place = submission.place;
  place.folder = place.folder.parent_path().parent_path() / "RUN/jobs/TRIAL";
  return fmt::format(
      "# {}\n{}\n# each trial\n{}\n", (place.folder / "task.sh").string(),
      harness::TaskScript(submission.options),
      common::ShellLine(harness::SbatchTrial(
          submission.options, place, needs.nodes, needs.gpus_per_node)));
}

std::unique_ptr<trials::TrialRunner> MakeTrialJobs(
    const harness::Experiment& experiment, const harness::RunSpec& run,
    const std::optional<harness::TrialCheck>& check) {
  const harness::Manifest& manifest = experiment.manifest;
  const harness::Testbed& testbed = experiment.testbeds.Of(*run.problem);
  const harness::SlurmSubmission submission =
      NewSubmission({}, experiment, "", false);
  harness::TrialJobs::Search search{
      .place = submission.place,
      .options = submission.options,
      .experiment_folder = fs::absolute(experiment.folder),
      .task = {.manifest = fs::absolute(manifest.path),
               .settings = manifest.settings,
               .problem = run.problem->name,
               .time_minutes = submission.options.time_minutes,
               .check = check},
      .note = PrintLine};
  search.run_folder = check ? search.experiment_folder / harness::kChecksFolder
                            : run.Folder(search.experiment_folder);
  AddNeeds(search.options, testbed, search.needs);
  search.in_flight = check ? 1 : manifest.budget.in_flight;
  return std::make_unique<harness::TrialJobs>(std::move(search),
                                              *testbed.runner);
}

std::vector<harness::Job> NotInTheQueue(const fs::path& experiment_folder,
                                        const std::vector<harness::Job>& jobs) {
  const auto submissions = harness::ReadSubmissions(experiment_folder);
  if (submissions.empty()) {
    return jobs;
  }
  const std::optional<harness::Queue> queue =
      harness::ReadQueue(submissions.back().place.experiment);
  if (!queue) {
    throw std::runtime_error(
        fmt::format("{}: jobs were submitted before, and squeue does not "
                    "report their state: try again when it responds",
                    experiment_folder.string()));
  }
  const auto states = harness::LatestTasks(submissions, queue);
  std::vector<harness::Job> free;
  std::vector<std::string> stale_jobs;
  for (const harness::Job& job : jobs) {
    const auto found = states.find(job.name);
    const bool active = found != states.end() && found->second.IsActive();
    if (active && found->second.kind == harness::SlurmTaskState::Kind::kStuck) {
      stale_jobs.push_back(found->second.TaskId());
    } else if (active) {
      continue;
    }
    free.push_back(job);
  }
  (void)harness::Cancel(stale_jobs, submissions.back().place.experiment);
  return free;
}

std::string OutputOfLastJob(const fs::path& experiment_folder) {
  while (harness::StopSignal() == 0) {
    const auto last = harness::ReadSubmissions(experiment_folder).back();
    if (const auto queue = harness::ReadQueue(last.place.experiment)) {
      const auto entry = queue->find({last.finish_job_id, -1});
      if (entry == queue->end() || !entry->second.IsActive() ||
          entry->second.IsStuck()) {
        break;
      }
    }
    std::this_thread::sleep_for(std::chrono::seconds(2));
  }
  const auto submissions = harness::ReadSubmissions(experiment_folder);
  const fs::path log = harness::FinishLog(submissions.back().place.folder);
  return fs::exists(log) ? harness::Tail(log, kLogLines) + "\n"
                         : fmt::format(
                               "{}: missing; `oppa report` writes the "
                               "report from the records\n",
                               log.string());
}

namespace {

int RunTaskVerb(const fs::path& submission_folder, const std::string& which) {
  if (which == "finish") {
    return harness::FinishSubmission(submission_folder, Execute, PrintLine);
  }
  if (which == "trial") {
    return harness::RunTrial(submission_folder);
  }
  int array_base = 0;
  Read(which, {0}, array_base);
  return harness::RunTask(submission_folder, array_base, Execute);
}

int CancelVerb(const VerbOptions& options) {
  const harness::Experiment experiment = OpenExperiment(options);
  const harness::Manifest& manifest = experiment.manifest;
  const fs::path& folder = experiment.folder;
  auto submissions = harness::ReadSubmissions(folder);
  std::optional<harness::Queue> queue = harness::Queue();
  if (!submissions.empty()) {
    queue = harness::ReadQueue(manifest.name);
  }
  const auto states = harness::LatestTasks(submissions, queue);
  auto cancelled = std::ranges::count_if(
      states, [](const auto& state) { return state.second.IsActive(); });
  std::vector<std::int64_t> finishers;
  std::vector<std::int64_t> others;
  for (harness::SlurmSubmission& submission : submissions) {
    for (const std::int64_t id : submission.JobIds()) {
      (id == submission.finish_job_id ? finishers : others).push_back(id);
    }
    if (!submission.cancelled) {
      submission.cancelled = true;  // so that its last job submits nothing
      harness::WriteSubmission(submission);
    }
  }
  std::vector<std::int64_t> trials =
      harness::TrialJobIds(folder / harness::kChecksFolder);
  for (const harness::RunSpec& run : experiment.runs) {
    const auto of_run = harness::TrialJobIds(run.Folder(folder));
    trials.insert(trials.end(), of_run.begin(), of_run.end());
  }
  others.insert(others.end(), trials.begin(), trials.end());
  cancelled += std::ssize(trials);
  std::string complaint = harness::Cancel(finishers, manifest.name);
  if (complaint.empty()) {
    complaint = harness::Cancel(others, manifest.name);
  }
  harness::DropCachedQueue(folder);
  if (!complaint.empty()) {
    throw std::runtime_error("scancel: " + complaint);
  }
  fmt::print(
      "{}: {} jobs cancelled; their records are kept, and `oppa {}` resumes "
      "from them\n",
      manifest.name, queue ? std::to_string(cancelled) : std::string("all"),
      folder == jobs::TuneFolder(options.manifest, manifest.name) ? "tune"
                                                                  : "run");
  return 0;
}

int Logs(const VerbOptions& options, const std::string& run_name) {
  const harness::Experiment experiment = OpenExperiment(options);
  const std::vector<std::string> names =
      common::Map(experiment.runs, &harness::RunSpec::Name);
  const auto name = run_name.empty() && names.size() == 1
                        ? names.begin()
                        : std::ranges::find(names, run_name);
  if (name == names.end()) {
    throw InputError(
        fmt::format("'{}' is not a run of {}{}; `oppa matrix` lists the runs",
                    run_name, experiment.manifest.path.string(),
                    common::DidYouMean(run_name, names)));
  }
  const fs::path run_folder =
      experiment.runs[name - names.begin()].Folder(experiment.folder);
  const auto has_text = [](const fs::path& log) {
    return fs::exists(log) && fs::file_size(log) > 0;
  };
  const auto states = harness::LatestTasks(
      harness::ReadSubmissions(experiment.folder), std::nullopt);
  const auto task = states.find(*name);
  fs::path log =
      task == states.end() ? run_folder / "log.txt" : task->second.log;
  if (const fs::path trial = harness::NewestLog(run_folder);
      !has_text(log) && !trial.empty()) {
    log = trial;
  }
  if (has_text(log)) {
    fmt::print("{}:\n{}\n", log.string(), harness::Tail(log, kLogLines));
  } else {
    fmt::print("{}: wrote nothing (its log is {})\n", *name, log.string());
  }
  return 0;
}

Verb DefineLogs() {
  const auto all = std::make_shared<Bound<std::string>>();
  Options options = RecordOptions(all->verb);
  options.insert(
      options.begin() + 1,
      Bind("RUN",
           "name of the run, as in `oppa matrix` (default: the only one)",
           all->own));
  return {.group = kExperiments,
          .name = "logs",
          .summary = "show the last output of a run",
          .options = options,
          .examples = {"oppa logs experiments/smoke.toml oppa/1"},
          .run = [all](const Words&) { return Logs(all->verb, all->own); }};
}

Verb DefineCancel() {
  const auto options = std::make_shared<VerbOptions>();
  return {.group = kExperiments,
          .name = "cancel",
          .summary = "cancel the experiment's Slurm jobs",
          .description = "Records are kept; `oppa run` resumes from them.",
          .options = {ManifestArgument(*options), ResultsOption(*options)},
          .examples = {"oppa cancel experiments/smoke.toml"},
          .run = [options](const Words&) { return CancelVerb(*options); }};
}

// The verb that a Slurm job calls; see run_task.h.
Verb DefineRunTask() {
  const auto words = std::make_shared<std::array<std::string, 2>>();
  return {.name = "run-task",
          .summary = "execute a task of a Slurm submission",
          .options = {Required(Bind("FOLDER", "", words->front())),
                      Required(Bind("WHICH", "", words->back()))},
          .run = [words](const Words&) {
            return RunTaskVerb(words->front(), words->back());
          }};
}

// Runs the program of a trial on a node, or on each host.
Verb DefineContain() {
  const auto task = std::make_shared<trials::RankTask>();
  return {.name = "contain",
          .summary = "execute a program and end all its processes",
          .options = {Bind("--hosts A,B,...", "", task->hosts),
                      Bind("--remote", "", task->remote),
                      Bind("--folder FOLDER", "", task->folder),
                      Bind("--patience-s N", "", task->patience_s, Range{0})},
          .command = std::shared_ptr<Words>(task, &task->words),
          .run = [task](const Words&) {
            harness::CatchStopSignals();
            return trials::RunRanks(*task, harness::ProgramPath(),
                                    [] { return harness::StopSignal() != 0; });
          }};
}

}  // namespace

Verbs SlurmVerbs() {
  return {DefineLogs(), DefineCancel(), DefineRunTask(), DefineContain()};
}

}  // namespace cli
