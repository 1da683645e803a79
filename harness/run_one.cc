#include "harness/run_one.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "common/error.h"
#include "common/files.h"
#include "common/process.h"
#include "common/text.h"
#include "harness/experiment.h"
#include "harness/predictions/earlier_jobs.h"
#include "harness/records/inputs.h"
#include "harness/records/journal.h"
#include "harness/registry.h"
#include "harness/search.h"
#include "harness/testbeds/program.h"
#include "harness/testbeds/testbeds.h"
#include "trials/record.h"
#include "trials/record_list.h"

namespace harness {
namespace {

using trials::RecordList;

// The trials that ran with input that was changed since.
int AdoptedTrials(const trials::RunInfo& info) {
  return info.accepted && !info.accepted->empty()
             ? info.accepted->back().after_trial
             : 0;
}

// On a virtual clock, drops the last trials that a smaller budget may have
// changed: those that its time cut off, and the last `count`, which it may have
// cut off, or during which it allowed no other to start. They are repeated, as
// if the budget had been larger from the start.
void RepeatLastTrials(const Budget& budget, int adopted, int count,
                      Journal& journal) {
  for (; !journal.committed().empty(); --count) {
    const trials::Trial& last = journal.committed().back();
    const bool cut_off =
        last.measurement.outcome == trials::Outcome::kTimedOut &&
        last.elapsed_s < budget.time_s * (1.0 - kBudgetSlack);
    if ((!cut_off && count <= 0) || last.number <= adopted ||
        last.chosen_by == trials::ChosenBy::kImported) {
      return;
    }
    journal.DropLast();
  }
}

void RequireOneInFlight(const Manifest& manifest) {
  if (manifest.budget.in_flight > 1) {
    throw common::InputError(fmt::format(
        "{}: in_flight = {} in [budget] needs trials that are Slurm jobs of "
        "their own (docs/slurm.md): here, each trial uses all GPUs; set "
        "in_flight = 1",
        manifest.path.string(), manifest.budget.in_flight));
  }
}

// Prints what the journal has dropped, and publishes that the run goes on.
void Begin(const Journal& journal, const trials::RunInfo& info,
           const std::filesystem::path& experiment_folder,
           const std::filesystem::path& folder) {
  for (const std::string& note : journal.notes()) {
    fmt::print(stderr, "oppa: {}\n", note);
  }
  journal.lease().Publish("run.json", ToJson(info));
  RecordList::Add(experiment_folder,
                  folder.lexically_relative(experiment_folder));
}

// Seals the records of a search that has ended. Returns false for one that was
// stopped.
bool Finish(const SearchSummary& summary,
            const std::filesystem::path& experiment_folder,
            const std::filesystem::path& folder, const Journal& journal,
            const Testbed& testbed, trials::RunInfo& info) {
  if (summary.finish_reason == trials::FinishReason::kUnfinished) {
    if (!summary.stop_reason.empty()) {
      fmt::print(stderr, "{}\n", summary.stop_reason);
    }
    return false;
  }
  info.finished = true;
  info.finish_reason = summary.finish_reason;
  info.remaining = summary.remaining;
  if (testbed.predicted && !testbed.predicted->simulated) {
    info.computation =
        ComputationFactor(trials::ReadTrials(folder), &*testbed.predicted);
  }
  info.files = trials::SealFiles(folder);
  RecordList::Add(
      experiment_folder,
      trials::ContentLine(folder.lexically_relative(experiment_folder),
                          SealText(info)));
  journal.lease().Publish("run.json", ToJson(info));
  return true;
}

}  // namespace

int SuggestionThreads() {
  for (const char* name : {"OPPA_THREADS", "SLURM_CPUS_PER_TASK"}) {
    const std::string value = common::EnvironmentValue(name);
    if (value.empty()) {
      continue;
    }
    constexpr int kMost = 1024;
    if (const auto threads = common::ParseInt(value, 1, kMost)) {
      return *threads;
    }
    throw common::InputError(
        fmt::format("{} = '{}': a number of threads from 1 to {}; unset it for "
                    "the default",
                    name, value, kMost));
  }
  return 1;
}

bool RunOne(const Experiment& experiment, const RunSpec& run,
            const RunConditions& conditions) {
  const Manifest& manifest = experiment.manifest;
  const std::filesystem::path folder = run.Folder(experiment.folder);
  Testbed& testbed = experiment.testbeds.Of(*run.problem);
  const bool real_clock = !testbed.simulated || conditions.make_remote_runner ||
                          conditions.make_clock;
  if (real_clock && !conditions.make_clock) {
    RequireOneInFlight(manifest);
  }
  trials::RunInfo info = DescribeRun(experiment, run, conditions.command);
  PrepareRun(folder, info);
  if (IsFinished(folder)) {
    const trials::RunInfo known = trials::ReadRunInfo(folder);
    trials::RequireWhole(folder, known);
    RecordList(experiment.folder).Require(known);
    return true;  // its files no longer change
  }
  methods::Problem problem = ProblemOf(testbed, manifest.budget.q_max);
  problem.threads = SuggestionThreads();
  const auto method = MakeMethod(*run.method, problem, info.seed);
  if (testbed.program != nullptr) {
    testbed.program->KeepLogs(folder / "trials");
  }
  common::CreateFolders(folder);
  Journal journal(folder, conditions.lease_timeout_s,
                  {.custom = CustomNames(*testbed.space),
                   .suggestion = manifest.budget.in_flight > 1});
  if (IsFinished(folder)) {
    return true;  // by another process, while this one waited for the lock
  }
  Begin(journal, info, experiment.folder, folder);
  const int adopted = AdoptedTrials(info);
  if (testbed.simulated) {
    const int k = real_clock ? 1 : manifest.budget.in_flight;
    RepeatLastTrials(manifest.budget, adopted, k == 1 ? 0 : k, journal);
  }
  const std::unique_ptr<trials::TrialRunner> remote =
      conditions.make_remote_runner ? conditions.make_remote_runner() : nullptr;
  trials::TrialRunner& runner = remote ? *remote : *testbed.runner;
  std::unique_ptr<Clock> clock = conditions.make_clock
                                     ? conditions.make_clock(runner)
                                     : std::make_unique<VirtualClock>(runner);
  std::deque<methods::Suggestion> starts;
  auto& queue = conditions.queue != nullptr ? *conditions.queue : starts;
  std::ranges::copy(
      StartsOf(manifest, *run.problem, run.repeat, *testbed.space),
      std::inserter(queue, queue.begin()));
  const SearchSummary summary =
      Search({.space = *testbed.space,
              .budget = manifest.budget,
              .trial_seed = manifest.TrialSeed(*run.problem, run.repeat),
              .method = *method,
              .clock = *clock,
              .journal = journal,
              .stop = conditions.stop,
              .queue = &queue,
              .adopted = adopted,
              .on_record = conditions.on_record,
              .run_variance = conditions.run_variance});
  clock.reset();  // interrupts the trials that still run
  return Finish(summary, experiment.folder, folder, journal, testbed, info);
}

void NoteFinishedRuns(const Experiment& experiment) {
  const RecordList list(experiment.folder);
  for (const RunSpec& run : experiment.runs) {
    const std::filesystem::path folder = run.Folder(experiment.folder);
    const std::string name = folder.lexically_relative(experiment.folder);
    if (!list.names().contains(name) && IsFinished(folder)) {
      RecordList::Add(experiment.folder, name);
    }
  }
}

}  // namespace harness
