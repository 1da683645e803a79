#include "harness/records/import.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "common/csv_table.h"
#include "common/files.h"
#include "common/ranges.h"
#include "common/toml_table.h"
#include "harness/incumbent.h"
#include "harness/records/inputs.h"
#include "harness/records/journal.h"
#include "harness/testbeds/testbeds.h"
#include "trials/knobs.h"
#include "trials/record_list.h"
#include "trials/tables/history.h"
#include "trials/tables/measured_rows.h"

namespace harness {
namespace {

namespace fs = std::filesystem;

using common::CsvTable;
using trials::Outcome;
using trials::Trial;

// The standard deviation of an imported throughput whose spread is not known,
// relative to it.
constexpr double kRelativeDeviation = 0.05;

// Errors: throws InputError for a row of another job.
void RequireSize(const trials::Facts& facts, const trials::StepSize& size) {
  for (const auto& [name, own] :
       {std::pair("global_batch_size", size.batch_size),
        std::pair("sequence_length", size.sequence_length)}) {
    if (own > 0.0 && facts.Has(name) && facts.Number(name) != own) {
      facts.Fail(fmt::format(
          "{} is {}, and that of the manifest {:g}: a trial of another job; a "
          "search can start from its results (oppa tune --from)",
          name, facts.Text(name), own));
    }
  }
}

Trial TrialOf(const trials::MeasuredRow& row, const trials::KnobSet& knobs,
              const trials::StepSize& size) {
  RequireSize(row.facts, size);
  trials::ParallelConfig config = Canonical(row.config, knobs);
  if (config.dp * config.microbatches * config.micro_batch_size ==
      size.batch_size) {
    config.micro_batch_size = 0;  // it follows from the others, as in a space
  }
  const double steps_per_s = row.steps_per_s;
  trials::Measurement measurement;
  measurement.outcome = row.outcome.value_or(
      std::isnan(steps_per_s) ? Outcome::kFailed : Outcome::kCompleted);
  measurement.message = row.facts.Text("message");
  if (!std::isnan(row.peak_memory_bytes)) {
    measurement.peak_memory_bytes = row.peak_memory_bytes;
  }
  const bool ran = measurement.outcome == Outcome::kCompleted ||
                   measurement.outcome == Outcome::kTerminatedEarly;
  if (ran && std::isnan(steps_per_s)) {
    row.facts.Fail(
        "this trial ran, but the row has neither a step time nor a throughput: "
        "rename the column that is one of them to step_time_s, tokens_per_s, "
        "...");
  }
  Trial trial = trials::MakeTrial(0, config, measurement);
  trial.custom = CustomValues(config, knobs);
  if (ran) {
    // d(1/t) = dt / t^2.
    const double deviation =
        row.facts.Has("step_time_stddev_s")
            ? row.facts.Number("step_time_stddev_s") * steps_per_s * steps_per_s
            : kRelativeDeviation * steps_per_s;
    trial.throughput = {steps_per_s,
                        row.facts.Has("throughput_variance")
                            ? row.facts.NonNegative("throughput_variance")
                            : deviation * deviation,
                        1};
  }
  trial.chosen_by = trials::ChosenBy::kImported;
  return trial;
}

// Makes a trial that physics does not allow a failed one. Returns why, or "".
std::string RejectImplausible(Trial& trial,
                              const trials::MeasurementLimits& limits) {
  if (std::isnan(trial.throughput.steps_per_s)) {
    return "";
  }
  trials::Measurement measured = trial.measurement;
  measured.step_times_s = {1.0 / trial.throughput.steps_per_s};
  trials::RejectImplausible(measured, limits);
  if (measured.outcome != Outcome::kFailed) {
    return "";
  }
  trial.measurement = measured;
  trial.throughput = {};
  return measured.message;
}

// Returns what became of the rows of the files, in one line.
std::string ImportInto(const Experiment& experiment, const RunSpec& run,
                       const std::vector<Trial>& trials) {
  const Testbed& testbed = experiment.testbeds.Of(*run.problem);
  const fs::path folder = run.Folder(experiment.folder);
  common::CreateFolders(folder);
  if (IsFinished(folder)) {
    Reopen(folder);
  }
  Journal journal(folder, Lease::kTimeoutSeconds,
                  {CustomNames(*testbed.space)});
  if (!common::EntryExists(folder / "run.json")) {
    journal.lease().Publish("run.json",
                            ToJson(DescribeRun(experiment, run, "import")));
  }
  trials::RecordList::Add(experiment.folder,
                          folder.lexically_relative(experiment.folder));
  std::set<int> tried;
  double elapsed_s = 0.0;
  Incumbent incumbent(testbed.weight());
  for (const Trial& trial : journal.committed()) {
    tried.insert(FindCandidate(trial, *testbed.space).value_or(-1));
    elapsed_s = trial.elapsed_s;
    incumbent.Add(trial);
  }
  const int before = static_cast<int>(journal.committed().size());
  int repeated = 0;
  int others = 0;  // not in the space
  std::string first_other;
  std::vector<Trial> imported;
  for (Trial trial : trials) {
    const std::optional<int> candidate = FindCandidate(trial, *testbed.space);
    if (!candidate) {
      first_other = others++ == 0 ? CandidateLabel(trial) : first_other;
      continue;
    }
    if (!tried.insert(*candidate).second) {
      ++repeated;
      continue;
    }
    trial.number = before + static_cast<int>(imported.size()) + 1;
    trial.candidate = *candidate;
    trial.elapsed_s = elapsed_s;
    incumbent.Add(trial);
    trial.incumbent_steps_per_s = incumbent.steps_per_s();
    imported.push_back(std::move(trial));
  }
  journal.CommitImported(imported);
  std::string line =
      fmt::format("{}: {} trials imported", run.Name(), imported.size());
  if (repeated > 0) {
    line += fmt::format(
        ", {} left out because their configuration was tried before", repeated);
  }
  if (others > 0) {
    line += fmt::format(
        ", {} left out because they are not in the search space (first: {})",
        others, first_other);
  }
  return line;
}

}  // namespace

std::vector<Trial> ReadTrialTable(const fs::path& path,
                                  const trials::KnobSet& knobs,
                                  const trials::StepSize& step,
                                  std::vector<std::string>& notes,
                                  const trials::Rule::Context& context) {
  const CsvTable table = trials::ReadHistory(path, context, notes);
  const trials::MeasuredColumns columns =
      CheckColumns(table, knobs, {},
                   {"message", "throughput_variance", "step_time_stddev_s",
                    "chosen_by", "global_batch_size", "sequence_length"});
  const auto fail = [&table](const std::string& message) {
    table.Fail(table.header_line(), message);
  };
  if (!columns.names.contains("step_time_s") &&
      !columns.names.contains("status")) {
    fail(
        "no column has the speed of a trial: give step_time_s, step_time_ms, "
        "throughput_steps_per_s, samples_per_s or tokens_per_s, or rename the "
        "column that is one of them in the header: " +
        fmt::format("{}", fmt::join(table.header(), ", ")));
  }
  if (std::ranges::none_of(knobs, [&](const trials::Knob& knob) {
        return columns.names.contains(knob.name);
      })) {
    fail("no column is a parameter of a configuration, such as dp");
  }
  if (!columns.unknown.empty()) {
    notes.push_back(fmt::format("{}: ignored columns: {}", path.string(),
                                fmt::join(columns.unknown, ", ")));
  }
  return common::Map(table.rows(), [&](const CsvTable::Row& row) {
    return TrialOf(ReadMeasuredRow({table, row}, knobs, step), knobs, step);
  });
}

std::vector<std::string> ImportTrials(const Experiment& experiment,
                                      const std::vector<fs::path>& files) {
  CheckRecords(experiment);
  std::vector<std::string> notes;
  std::map<const ProblemSpec*, std::vector<Trial>> trials;
  for (const ProblemSpec& problem : experiment.manifest.problems) {
    const Testbed& testbed = experiment.testbeds.Of(problem);
    const trials::StepSize size{
        problem.workload.GetDouble("batch_size", 0.0),
        problem.workload.GetDouble("sequence_length", 0.0)};
    const trials::Rule::Context context =
        testbed.workload
            ? RuleContext(*testbed.workload, testbed.machine.gpus())
            : trials::Rule::Context();
    for (const fs::path& file : files) {
      std::vector<std::string> found;
      int rejected = 0;
      std::string why;
      for (Trial& trial :
           ReadTrialTable(file, testbed.space->knobs(), size, found, context)) {
        const std::string wrong = RejectImplausible(trial, testbed.limits);
        rejected += wrong.empty() ? 0 : 1;
        why = wrong.empty() ? why : wrong;
        trials[&problem].push_back(std::move(trial));
      }
      if (rejected > 0) {
        found.push_back(fmt::format("{}: {} trials count as failed: {}",
                                    file.string(), rejected, why));
      }
      if (&problem == &experiment.manifest.problems.front()) {
        notes.insert(notes.end(), found.begin(), found.end());
      }
    }
  }
  WriteExperiment(experiment);
  for (const RunSpec& run : experiment.runs) {
    notes.push_back(ImportInto(experiment, run, trials[run.problem]));
  }
  return notes;
}

}  // namespace harness
