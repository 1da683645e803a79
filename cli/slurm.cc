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
#include <unistd.h>

#include "cli/command_line.h"
#include "cli/contain.h"
#include "cli/verb_options.h"
#include "common/error.h"
#include "common/process.h"
#include "common/text.h"
#include "harness/local_pool.h"
#include "harness/provenance.h"
#include "harness/records/journal.h"
#include "harness/run_matrix.h"
#include "harness/run_one.h"
#include "harness/slurm/run_task.h"
#include "harness/slurm/slurm.h"
#include "harness/slurm/slurm_queue.h"
#include "harness/slurm/task_status.h"
#include "harness/slurm/trial_jobs.h"
#include "harness/stop.h"
#include "harness/testbed.h"
#include "trials/cluster.h"

namespace cli {
namespace {

namespace fs = std::filesystem;
using common::InputError;

constexpr int kLogLines = 200;

// Nodes and GPUs that a run occupies.
void AddNeeds(const harness::SlurmOptions& options,
              const harness::ProblemSpec& problem, harness::Job& job) {
  if (options.resources == harness::SlurmOptions::Resources::kCpu ||
      (options.resources == harness::SlurmOptions::Resources::kAuto &&
       harness::IsSimulated(problem))) {
    return;
  }
  const trials::Cluster cluster = trials::ReadCluster(
      problem.cluster.Folder() / problem.cluster.RequireString("file"));
  job.nodes = cluster.nodes;
  job.gpus_per_node = cluster.gpus_per_node;
}

// The output of the last trial of a run with a training program; "" if none.
fs::path NewestTrialLog(const fs::path& run_folder) {
  fs::path newest;
  fs::file_time_type newest_time;
  std::error_code none;
  for (const auto& entry : fs::recursive_directory_iterator(run_folder, none)) {
    if (entry.path().extension() == ".log" && entry.is_regular_file(none) &&
        (newest.empty() || entry.last_write_time(none) > newest_time)) {
      newest = entry.path();
      newest_time = entry.last_write_time(none);
    }
  }
  return newest;
}

void PrintLine(const std::string& line) { fmt::print("{}\n", line); }

}  // namespace

harness::SlurmSubmission NewSubmission(const VerbOptions& options,
                                       const harness::Manifest& manifest,
                                       const std::string& token, bool report) {
  harness::SlurmSubmission submission;
  submission.options = harness::SlurmOptionsFor(manifest.slurm);
  if (options.requeue_until_done) {
    submission.options.requeue_until_done = true;
  }
  submission.place.program = harness::ProgramPath();
  submission.place.directory = fs::current_path();
  submission.place.folder = fs::absolute(
      harness::SlurmFolder(ExperimentFolder(options, manifest)) / token);
  submission.place.experiment = manifest.name;
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
                                    const std::vector<harness::RunSpec>& runs,
                                    std::vector<harness::Job> jobs) {
  for (harness::Job& job : jobs) {
    AddNeeds(options, *runs[job.id].problem, job);
    job.log = fs::absolute(job.log);
  }
  return jobs;
}

std::string FormatTrialSubmission(const harness::SlurmSubmission& submission,
                                  const harness::Manifest& manifest) {
  harness::Job needs;
  AddNeeds(submission.options, manifest.problems.front(), needs);
  harness::SlurmPlace place = submission.place;
  place.folder = place.folder.parent_path().parent_path() / "RUN/jobs/TRIAL";
  return fmt::format(
      "# {}\n{}\n# each trial\n{}\n", (place.folder / "task.sh").string(),
      harness::TaskScript(),
      common::ShellLine(harness::SbatchTrial(
          submission.options, place, needs.nodes, needs.gpus_per_node)));
}

std::unique_ptr<trials::TrialRunner> MakeTrialJobs(
    const VerbOptions& options, const harness::Manifest& manifest,
    const harness::RunSpec& run, const harness::Testbed& testbed) {
  const harness::SlurmOptions slurm = harness::SlurmOptionsFor(manifest.slurm);
  harness::Job needs;
  AddNeeds(slurm, *run.problem, needs);
  const fs::path folder = fs::absolute(ExperimentFolder(options, manifest));
  return std::make_unique<harness::TrialJobs>(
      slurm,
      harness::TrialJobs::Place{.program = harness::ProgramPath(),
                                .experiment_folder = folder,
                                .run_folder = run.Folder(folder),
                                .experiment = manifest.name,
                                .manifest = fs::absolute(manifest.path),
                                .settings = manifest.settings,
                                .problem = run.problem->name,
                                .nodes = needs.nodes,
                                .gpus_per_node = needs.gpus_per_node,
                                .note = PrintLine},
      *testbed.runner);
}

std::vector<harness::Job> NotInTheQueue(const fs::path& experiment_folder,
                                        const std::vector<harness::Job>& jobs) {
  const auto submissions = harness::ReadSubmissions(experiment_folder);
  if (submissions.empty()) {
    return jobs;
  }
  const std::optional<harness::Queue> queue = harness::ReadQueue(submissions);
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
  (void)harness::Cancel(stale_jobs);
  return free;
}

void WaitForLastJob(const fs::path& experiment_folder) {
  while (harness::StopSignal() == 0) {
    const auto submissions = harness::ReadSubmissions(experiment_folder);
    const std::int64_t last = submissions.back().finish_job_id;
    const std::optional<harness::Queue> queue =
        harness::ReadQueue(std::vector<std::int64_t>{last});
    if (queue) {
      const auto entry = queue->find({last, -1});
      if (entry == queue->end() || !entry->second.IsActive() ||
          entry->second.IsStuck()) {
        return;
      }
    }
    std::this_thread::sleep_for(std::chrono::seconds(2));
  }
}

std::string LastJobOutput(const fs::path& experiment_folder) {
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
  const harness::Manifest manifest =
      harness::ReadManifest(options.manifest, options.overrides);
  const fs::path folder = ExperimentFolder(options, manifest);
  auto submissions = harness::ReadSubmissions(folder);
  const std::optional<harness::Queue> queue = harness::ReadQueue(submissions);
  int tasks = 0;
  std::vector<std::string> finishers;
  std::vector<std::string> arrays;
  for (harness::SlurmSubmission& submission : submissions) {
    if (submission.finish_job_id != 0) {
      finishers.push_back(std::to_string(submission.finish_job_id));
    }
    for (const harness::SlurmArray& array : submission.arrays) {
      if (array.job_id != 0) {
        arrays.push_back(std::to_string(array.job_id));
      }
    }
    if (!submission.cancelled) {
      submission.cancelled = true;  // so that its last job submits nothing
      harness::WriteSubmission(submission);
    }
  }
  if (queue) {
    tasks = static_cast<int>(
        std::count_if(queue->begin(), queue->end(), [](const auto& entry) {
          return entry.second.IsActive() && entry.first.second >= 0;
        }));
  }
  for (const harness::RunSpec& run : harness::RunMatrix(manifest)) {
    for (const std::int64_t id : harness::TrialJobIds(run.Folder(folder))) {
      arrays.push_back(std::to_string(id));
      ++tasks;
    }
  }
  std::string complaint = harness::Cancel(finishers);
  if (complaint.empty()) {
    complaint = harness::Cancel(arrays);
  }
  harness::DropCachedQueue(folder);
  if (!complaint.empty()) {
    throw std::runtime_error("scancel: " + complaint);
  }
  fmt::print(
      "{}: {} jobs cancelled; their records are kept, and `oppa run` "
      "resumes from them\n",
      manifest.name, queue ? std::to_string(tasks) : std::string("all"));
  return 0;
}

int Logs(const VerbOptions& options, const std::string& run_name) {
  const harness::Manifest manifest =
      harness::ReadManifest(options.manifest, options.overrides);
  const fs::path folder = ExperimentFolder(options, manifest);
  std::vector<std::string> names;
  for (const harness::RunSpec& run : harness::RunMatrix(manifest)) {
    names.push_back(run.Name());
    if (run.Name() != run_name) {
      continue;
    }
    const auto submissions = harness::ReadSubmissions(folder);
    fs::path log = run.Folder(folder) / "log.txt";
    const auto states = harness::LatestTasks(submissions, std::nullopt);
    if (const auto found = states.find(run_name); found != states.end()) {
      log = found->second.log;
    }
    if (!fs::exists(log) || fs::file_size(log) == 0) {
      if (const fs::path trial = NewestTrialLog(run.Folder(folder));
          !trial.empty()) {
        log = trial;
      }
    }
    if (!fs::exists(log) || fs::file_size(log) == 0) {
      fmt::print("{}: wrote nothing (its log is {})\n", run_name,
                 common::Printable(log.string()));
      return 0;
    }
    fmt::print("{}:\n{}\n", common::Printable(log.string()),
               harness::Tail(log, kLogLines));
    return 0;
  }
  throw InputError(fmt::format(
      "'{}' is not a run of {}{}; `oppa matrix` lists the runs", run_name,
      manifest.path.string(), common::DidYouMean(run_name, names)));
}

Verb DefineLogs() {
  const auto all = std::make_shared<Bound<std::string>>();
  Options options = RecordOptions(all->verb);
  options.insert(
      options.begin() + 1,
      Required(Bind("RUN", "name of the run, as in `oppa matrix`", all->own)));
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

// A rank of a trial on another node.
Verb DefineContain() {
  const auto program = std::make_shared<Words>();
  Option words = Required(MakeOption(
      "WORDS", "", [program](const auto& word) { program->push_back(word); }));
  words.repeated = true;
  return {.name = "contain",
          .summary = "execute a program and end all its processes",
          .options = {words},
          .run = [program](const Words&) { return Contain(*program); }};
}

}  // namespace

Verbs SlurmVerbs() {
  return {DefineLogs(), DefineCancel(), DefineRunTask(), DefineContain()};
}

}  // namespace cli
