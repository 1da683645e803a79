#include "jobs/calibration.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "common/csv_table.h"
#include "common/text.h"
#include "jobs/job.h"
#include "trials/knobs.h"
#include "trials/record.h"
#include "trials/simulator/simulator.h"

namespace jobs {
namespace {

using common::InputError;
namespace fs = std::filesystem;

// Priors: how far factors are from 1 before any measurement, in logarithms, and
// the weight of the prior noise in measurements. Assumptions: computation is
// predicted better than communication.
constexpr double kComputeStddev = 0.25;
constexpr double kCommunicationStddev = 0.5;
constexpr double kMemoryStddev = 0.1;
constexpr double kNoise = 0.08;
constexpr double kMemoryNoise = 0.05;
constexpr double kPriorWeight = 4.0;

// The 95% quantile of Student's t, by the expansion of Cornish and Fisher.
// Source: Abramowitz and Stegun (1964), 26.7.5.
double TQuantile95(double freedom) {
  constexpr double z = 1.6448536;
  return z + (z * z * z + z) / (4.0 * freedom) +
         (5.0 * std::pow(z, 5) + 16.0 * z * z * z + 3.0 * z) /
             (96.0 * freedom * freedom);
}

// The predicted parts of a measured step and what was measured.
struct Sample {
  double compute_s = 0.0;
  double communication_s = 0.0;
  double log_measured = 0.0;
};

// d log(c C + n N) / d (log c, log n), and the residual.
struct Linearized {
  double compute = 0.0;
  double communication = 0.0;
  double residual = 0.0;
};

Linearized Linearize(const Sample& sample, const Calibration& at) {
  const double compute_s = at.compute * sample.compute_s;
  const double communication_s = at.communication * sample.communication_s;
  const double total_s = compute_s + communication_s;
  return {compute_s / total_s,
          communication_s / total_s,
          sample.log_measured - std::log(total_s)};
}

// One Gauss-Newton step to the maximum of the posterior at the present noise.
void Improve(const std::vector<Sample>& samples, Calibration& fit) {
  const double weight = 1.0 / (fit.noise * fit.noise);
  double cc = 1.0 / (kComputeStddev * kComputeStddev);
  double nn = 1.0 / (kCommunicationStddev * kCommunicationStddev);
  double cn = 0.0;
  double gradient_c = -cc * std::log(fit.compute);
  double gradient_n = -nn * std::log(fit.communication);
  double squares = 0.0;
  for (const Sample& sample : samples) {
    const Linearized line = Linearize(sample, fit);
    cc += weight * line.compute * line.compute;
    cn += weight * line.compute * line.communication;
    nn += weight * line.communication * line.communication;
    gradient_c += weight * line.compute * line.residual;
    gradient_n += weight * line.communication * line.residual;
    squares += line.residual * line.residual;
  }
  const double determinant = cc * nn - cn * cn;
  fit.covariance = {nn / determinant, -cn / determinant, cc / determinant};
  fit.compute *=
      std::exp(fit.covariance[0] * gradient_c + fit.covariance[1] * gradient_n);
  fit.communication *=
      std::exp(fit.covariance[1] * gradient_c + fit.covariance[2] * gradient_n);
  fit.noise = std::sqrt((kPriorWeight * kNoise * kNoise + squares) /
                        (kPriorWeight + static_cast<double>(samples.size())));
}

void FitTimes(const std::vector<Sample>& samples, Calibration& fit) {
  fit.step_times = static_cast<int>(samples.size());
  fit.noise = kNoise;
  constexpr int kIterations = 50;
  for (int i = 0; i < kIterations; ++i) {
    Improve(samples, fit);
  }
}

// `ratios`: log(measured / predicted).
void FitPeaks(const std::vector<double>& ratios, Calibration& fit) {
  fit.peaks = static_cast<int>(ratios.size());
  if (ratios.empty()) {
    return;
  }
  const auto n = static_cast<double>(ratios.size());
  double noise = kMemoryNoise;
  double mean = 0.0;
  double precision = 0.0;
  constexpr int kIterations = 20;
  for (int i = 0; i < kIterations; ++i) {
    precision = 1.0 / (kMemoryStddev * kMemoryStddev) + n / (noise * noise);
    double sum = 0.0;
    double squares = 0.0;
    for (const double ratio : ratios) {
      sum += ratio / (noise * noise);
      squares += (ratio - mean) * (ratio - mean);
    }
    mean = sum / precision;
    noise = std::sqrt((kPriorWeight * kMemoryNoise * kMemoryNoise + squares) /
                      (kPriorWeight + n));
  }
  fit.memory = std::exp(mean);
  fit.memory_log_stddev = std::sqrt(1.0 / precision + noise * noise);
}

void AddTrials(const fs::path& run_folder, std::vector<MeasuredStep>& steps) {
  for (const trials::Trial& trial : trials::ReadTrials(run_folder)) {
    if (trial.HasThroughput() && trial.plan.empty()) {
      steps.push_back({trial.config,
                       0,
                       1.0 / trial.throughput.steps_per_s,
                       trial.measurement.peak_memory_bytes.value_or(0.0)});
    }
  }
}

double PositiveCell(const common::CsvTable& table,
                    const common::CsvTable::Row& row,
                    std::string_view column) {
  const std::string_view cell = table.Cell(row, column);
  if (cell.empty()) {
    return 0.0;
  }
  double value = 0.0;
  try {
    value = common::ParseDouble(cell);
  } catch (const std::invalid_argument&) {
    value = 0.0;
  }
  if (!(value > 0.0) || !std::isfinite(value)) {
    table.Fail(row.line,
               fmt::format("invalid value '{}' for {}: a number > 0; leave the "
                           "cell empty if it is unknown",
                           cell,
                           column));
  }
  return value;
}

std::vector<MeasuredStep> ReadCsv(const fs::path& path) {
  const common::CsvTable table = common::CsvTable::Read(path);
  if (!table.Find("step_time_s")) {
    table.Fail(table.header_line(),
               "the column step_time_s is missing: seconds per training step");
  }
  std::vector<MeasuredStep> steps;
  for (const auto& row : table.rows()) {
    const std::string_view status = table.Cell(row, "status");
    MeasuredStep step;
    step.step_time_s = PositiveCell(table, row, "step_time_s");
    if ((!status.empty() && status != "ok") || step.step_time_s == 0.0) {
      continue;
    }
    constexpr double kGiga = 1e9;
    step.peak_memory_bytes = kGiga * PositiveCell(table, row, "peak_memory_gb");
    step.batch_size = static_cast<int>(PositiveCell(table, row, "batch_size"));
    for (std::size_t i = 0; i < table.header().size(); ++i) {
      const trials::Knob* knob = trials::BuiltInKnobs().Find(table.header()[i]);
      if (knob == nullptr || row.cells[i].empty()) {
        continue;
      }
      try {
        knob->SetChecked(step.config, row.cells[i]);
      } catch (const std::invalid_argument& e) {
        table.Fail(row.line, e.what());
      }
    }
    if (step.config.micro_batch_size > 0) {
      step.batch_size = step.config.dp * step.config.microbatches *
                        step.config.micro_batch_size;
      step.config.micro_batch_size = 0;
    }
    steps.push_back(step);
  }
  return steps;
}

// Simulators of the job on part of its machine, one per number of GPUs and
// batch.
class Parts {
 public:
  explicit Parts(const Job& job) : job_(job) {}

  [[nodiscard]] const trials::Simulator& Of(int gpus, int batch_size) {
    auto& simulator = simulators_[{gpus, batch_size}];
    if (simulator == nullptr) {
      trials::Workload workload = job_.workload;
      workload.batch_size = batch_size;
      simulator = std::make_unique<trials::Simulator>(
          workload,
          trials::WithGpus(job_.cluster, gpus),
          trials::Simulator::Options{job_.framework.framework});
    }
    return *simulator;
  }

 private:
  const Job& job_;
  std::map<std::pair<int, int>, std::unique_ptr<trials::Simulator>> simulators_;
};

}  // namespace

double CommunicationTime(const trials::TimeBreakdown& time) {
  return time.tensor_s + time.context_s + time.expert_s + time.data_s +
         time.pipeline_s;
}

double Calibration::StepTime(const trials::TimeBreakdown& time) const {
  const double communication_s = CommunicationTime(time);
  return compute * (time.Total() - communication_s) +
         communication * communication_s;
}

double Calibration::BandFactor(const trials::TimeBreakdown& time) const {
  const double communication_s = CommunicationTime(time);
  const Linearized line =
      Linearize({time.Total() - communication_s, communication_s, 0.0}, *this);
  const double variance =
      line.compute * line.compute * covariance[0] +
      2.0 * line.compute * line.communication * covariance[1] +
      line.communication * line.communication * covariance[2] + noise * noise;
  return std::exp(TQuantile95(kPriorWeight + step_times) * std::sqrt(variance));
}

std::vector<MeasuredStep> ReadMeasuredSteps(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    throw InputError(fmt::format(
        "--calibrate {}: there is no such CSV file or results folder",
        path.string()));
  }
  std::vector<MeasuredStep> steps;
  if (fs::is_directory(path, error)) {
    for (const auto& entry : fs::recursive_directory_iterator(path)) {
      if (entry.path().filename() == "trials.csv") {
        AddTrials(entry.path().parent_path(), steps);
      }
    }
  } else {
    steps = ReadCsv(path);
  }
  if (steps.empty()) {
    throw InputError(fmt::format("--calibrate {}: no measured step time in it",
                                 path.string()));
  }
  return steps;
}

Calibration Calibrate(const Job& job, const std::vector<MeasuredStep>& steps) {
  Parts parts(job);
  std::vector<Sample> samples;
  std::vector<double> peaks;
  std::string reason;
  for (const MeasuredStep& step : steps) {
    const trials::ParallelConfig& config = step.config;
    const int gpus = config.dp * config.tp * config.pp * config.cp;
    const int batch =
        step.batch_size > 0 ? step.batch_size : job.workload.batch_size;
    try {
      const trials::StepReport report = parts.Of(gpus, batch).Simulate(config);
      const double communication_s = CommunicationTime(report.time);
      samples.push_back({report.step_time_s - communication_s,
                         communication_s,
                         std::log(step.step_time_s)});
      if (step.peak_memory_bytes > 0.0) {
        peaks.push_back(
            std::log(step.peak_memory_bytes / report.peak_memory_bytes));
      }
    } catch (const std::invalid_argument& e) {
      reason = e.what();
    }
  }
  if (samples.empty()) {
    throw InputError(fmt::format(
        "--calibrate: none of the {} measured configurations can be simulated: "
        "{}",
        steps.size(),
        reason));
  }
  Calibration fit;
  FitTimes(samples, fit);
  FitPeaks(peaks, fit);
  return fit;
}

}  // namespace jobs
