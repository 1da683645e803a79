#include "jobs/plan/measured_steps.h"

#include <cmath>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/csv_table.h"
#include "common/quantiles.h"
#include "common/ranges.h"
#include "common/statistics.h"
#include "jobs/job.h"
#include "trials/flop.h"
#include "trials/knobs.h"
#include "trials/record.h"
#include "trials/simulator/simulator.h"
#include "trials/tables/history.h"
#include "trials/tables/measured_rows.h"

namespace jobs {
namespace {

using common::InputError;
namespace fs = std::filesystem;

// Why the trials of a problem may not be those of the job.
std::string NoteOf(const trials::ProblemInfo& info, const fs::path& folder,
                   const Job& job) {
  const double tokens = static_cast<double>(job.workload.batch_size) *
                        job.workload.sequence_length;
  const double trained = info.tokens_per_step.value_or(tokens);
  if (trained != tokens) {
    throw InputError(fmt::format(
        "--calibrate {}: its trials train {:.0f} tokens per step ({}), and the "
        "job {:.0f}: give the --batch and --seq of the trials, or trials of "
        "this job",
        folder.string(), trained, info.description, tokens));
  }
  std::string note;
  if (info.backend == "simulator") {
    note = fmt::format("note: the trials in {} are simulated, not measured\n",
                       folder.string());
  }
  if (!info.description.starts_with(job.workload.name + ",") ||
      info.description.find(job.cluster.gpu.name) == std::string::npos) {
    note += fmt::format(
        "note: the trials in {} seem to be of another model or machine than {} "
        "on {}: {}\n",
        folder.string(), job.workload.name, job.cluster.gpu.name,
        info.description);
  }
  return note;
}

void AddTrials(const fs::path& run_folder, const Job& job,
               MeasuredSteps& measured) {
  const trials::RunInfo run = trials::ReadRunInfo(run_folder);
  const fs::path problem =
      run_folder.parent_path().parent_path();  // above METHOD/REPEAT
  const std::string note =
      NoteOf(trials::ReadProblemInfo(problem), problem, job);
  if (measured.note.find(note) == std::string::npos) {
    measured.note += note;
  }
  for (const trials::Trial& trial : trials::ReadTrials(run_folder)) {
    if (trial.IsPlan()) {
      continue;
    }
    if (trial.HasThroughput()) {
      measured.steps.push_back(
          {trial.config, 0, 1.0 / trial.throughput.steps_per_s,
           trial.measurement.peak_memory_bytes.value_or(0.0)});
    } else if (trial.measurement.outcome == trials::Outcome::kOutOfMemory) {
      measured.steps.push_back({.config = trial.config});
    }
  }
}

// Where a row names their size alone.
int MicrobatchesOf(const trials::ParallelConfig& config,
                   const trials::Workload& workload, const fs::path& path) {
  const std::int64_t step = std::int64_t{config.dp} * config.micro_batch_size;
  if (workload.batch_size % step != 0) {
    throw InputError(fmt::format(
        "{}: dp * micro_batch_size does not divide --batch {} ({}): add a "
        "column microbatches",
        path.string(), workload.batch_size, ToString(config)));
  }
  return static_cast<int>(workload.batch_size / step);
}

// Errors: throws InputError for a row of another job.
void CheckRow(const trials::MeasuredRow& row, const trials::Workload& workload,
              const fs::path& path) {
  const int gpus = trials::GpusOf(row.config);
  if (row.facts.Int("gpus", gpus) != gpus) {
    row.facts.Fail(fmt::format("gpus is {}, and {} has {}: correct one",
                               row.facts.Text("gpus"), ToString(row.config),
                               gpus));
  }
  const int tokens = row.facts.Int("sequence_length", workload.sequence_length);
  if (tokens != workload.sequence_length) {
    throw InputError(fmt::format(
        "{}: a row has sequences of {} tokens, and the job of {}: give the "
        "--seq of the rows",
        path.string(), tokens, workload.sequence_length));
  }
}

// The step of a row that ran or ran out of memory, whose microbatches are
// counted.
MeasuredStep StepOf(const trials::MeasuredRow& row, bool counts_microbatches,
                    const trials::Workload& workload, const fs::path& path) {
  const auto or_zero = [](double value) {
    return std::isnan(value) ? 0.0 : value;
  };
  MeasuredStep step{.config = row.config,
                    .batch_size = row.facts.Int("global_batch_size", 0),
                    .step_time_s = or_zero(row.step_time_s),
                    .peak_memory_bytes = or_zero(row.peak_memory_bytes)};
  trials::ParallelConfig& config = step.config;
  if (config.micro_batch_size == 0) {
    return step;
  }
  if (step.batch_size == 0 && !counts_microbatches) {
    config.microbatches = MicrobatchesOf(config, workload, path);
  }
  const double batch =
      1.0 * config.dp * config.microbatches * config.micro_batch_size;
  constexpr double kMostSequences = 1e9;
  if (batch > kMostSequences) {
    throw InputError(fmt::format("{}: a step of {:g} sequences ({})",
                                 path.string(), batch, ToString(config)));
  }
  step.batch_size = static_cast<int>(batch);
  config.micro_batch_size = 0;
  return step;
}

std::vector<MeasuredStep> ReadCsv(const fs::path& path, const Job& job,
                                  std::string& note) {
  const trials::Workload& workload = job.workload;
  std::vector<std::string> notes;
  const common::CsvTable table = trials::ReadHistory(
      path, RuleContext(workload, job.cluster.gpus()), notes);
  const trials::MeasuredColumns columns =
      CheckColumns(table, trials::BuiltInKnobs(), {"step_time_s"},
                   {"gpus", "global_batch_size", "sequence_length"});
  if (!columns.unknown.empty()) {
    notes.push_back(fmt::format("{}: ignored columns: {}", path.string(),
                                fmt::join(columns.unknown, ", ")));
  }
  for (const std::string& each : notes) {
    note += fmt::format("note: {}\n", each);
  }
  std::vector<MeasuredStep> steps;
  for (const auto& csv_row : table.rows()) {
    const trials::MeasuredRow row =
        ReadMeasuredRow({table, csv_row}, trials::BuiltInKnobs(),
                        {static_cast<double>(workload.batch_size),
                         static_cast<double>(workload.sequence_length)});
    CheckRow(row, workload, path);
    if (!std::isnan(row.step_time_s) ||
        row.outcome == trials::Outcome::kOutOfMemory) {
      steps.push_back(
          StepOf(row, columns.names.contains("microbatches"), workload, path));
    }
  }
  return steps;
}

using harness::CalibrationRow;

// Why a step is none of this job; "" for one that may be.
std::string WhyImpossible(const MeasuredStep& step,
                          const trials::Workload& workload,
                          const trials::Cluster& cluster) {
  trials::Measurement measured{.outcome = trials::Outcome::kCompleted,
                               .peak_memory_bytes = step.peak_memory_bytes};
  if (step.step_time_s > 0.0) {
    measured.step_times_s = {step.step_time_s};
  }
  RejectImplausible(measured, LimitsOf(workload, cluster));
  return measured.message;
}

// The measured steps beside their simulation; `note` gets a line about those
// that physics does not allow, which are left out.
std::vector<CalibrationRow> SimulateSteps(
    const Job& job, const std::vector<MeasuredStep>& steps, std::string& note) {
  // Those of the job on part of its machine, by number of GPUs and batch.
  std::map<std::pair<int, int>, trials::Simulator> simulators;
  std::vector<CalibrationRow> rows;
  std::string reason;
  int impossible = 0;
  std::string why;
  for (const MeasuredStep& step : steps) {
    const trials::ParallelConfig& config = step.config;
    const int gpus = trials::GpusOf(config);
    trials::Workload workload = job.workload;
    if (step.batch_size > 0) {
      workload.batch_size = step.batch_size;
    }
    try {
      const trials::Cluster cluster = trials::WithGpus(job.cluster, gpus);
      const std::string wrong = WhyImpossible(step, workload, cluster);
      if (!wrong.empty()) {
        ++impossible;
        reason = why = wrong;
        continue;
      }
      const trials::StepReport report =
          simulators
              .try_emplace({gpus, workload.batch_size}, workload, cluster,
                           trials::Simulator::Options{job.framework.framework})
              .first->second.Simulate(config);
      rows.push_back({config,
                      harness::StepPartsOf(report.time, config, cluster),
                      step.step_time_s, report.peak_memory_bytes,
                      step.peak_memory_bytes, report.capacity_bytes});
    } catch (const std::invalid_argument& e) {
      reason = e.what();
    }
  }
  if (rows.empty()) {
    throw InputError(fmt::format(
        "none of the {} measured configurations can be simulated: {}",
        steps.size(), reason));
  }
  if (impossible > 0) {
    note += fmt::format("note: {} of {} measured configurations left out: {}\n",
                        impossible, steps.size(), why);
  }
  return rows;
}

}  // namespace

MeasuredSteps ReadMeasuredSteps(const fs::path& path, const Job& job) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    throw InputError(fmt::format(
        "--calibrate {}: there is no such CSV file or results folder",
        path.string()));
  }
  MeasuredSteps measured;
  if (fs::is_directory(path, error) && !trials::IsHistoryFolder(path)) {
    for (const fs::path& run : trials::RunFoldersBelow(path)) {
      AddTrials(run, job, measured);
    }
  } else {
    measured.steps = ReadCsv(path, job, measured.note);
  }
  if (measured.steps.empty()) {
    throw InputError(fmt::format("--calibrate {}: no measured step time in it",
                                 path.string()));
  }
  return measured;
}

Calibration Calibrate(const Job& job, const MeasuredSteps& measured) {
  std::string note = measured.note;
  Calibration calibration = harness::Calibrate(
      SimulateSteps(job, measured.steps, note),
      harness::CalibrationPrior::Of(job.framework.framework, GuessesOf(job)));
  calibration.job =
      harness::CalibratedJob::Of(job.workload, job.cluster, job.framework.name);
  calibration.note = note;
  return calibration;
}

CheckedErrors CheckCalibration(const Job& job, const Calibration& calibration,
                               const std::vector<MeasuredStep>& steps) {
  CheckedErrors errors;
  std::vector<CalibrationRow> rows = SimulateSteps(job, steps, errors.note);
  std::erase_if(rows,
                [](const CalibrationRow& row) { return row.step_time_s == 0; });
  const harness::CalibratedTimes times(
      calibration, common::Map(rows, &CalibrationRow::config));
  std::vector<double> before;
  std::vector<double> after;
  for (const CalibrationRow& row : rows) {
    const auto [calibrated_s, band] = times.Of(row.config, row.parts_s);
    before.push_back(std::abs(row.parts_s.sum() / row.step_time_s - 1.0));
    after.push_back(std::abs(calibrated_s / row.step_time_s - 1.0));
    if (!calibration.empty() &&
        std::abs(std::log(row.step_time_s / calibrated_s)) <= std::log(band)) {
      errors.inside += 1.0;
    }
  }
  errors.rows = static_cast<int>(before.size());
  errors.inside /= errors.rows;
  errors.before = {common::UpperMedian(before), common::Mean(before)};
  errors.after = {common::UpperMedian(after), common::Mean(after)};
  return errors;
}

}  // namespace jobs
