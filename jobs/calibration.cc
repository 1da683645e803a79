#include "jobs/calibration.h"

#include <cmath>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include <Eigen/LU>
#include <fmt/format.h>

#include "common/csv_table.h"
#include "common/quantiles.h"
#include "common/statistics.h"
#include "jobs/job.h"
#include "trials/knobs.h"
#include "trials/objective.h"
#include "trials/record.h"
#include "trials/simulator/simulator.h"
#include "trials/tables/measured_rows.h"

namespace jobs {
namespace {

using common::InputError;
namespace fs = std::filesystem;

// Priors: how far factors are from 1 before any measurement, in logarithms, and
// the weight of the prior noise in measurements. Assumptions: computation is
// predicted better than communication, and the network may be off by a factor
// of 2.
const Calibration::Parts kFactorStddev = {0.25, 0.5, 0.7};
constexpr double kMemoryStddev = 0.1;
constexpr double kNoise = 0.08;
constexpr double kMemoryNoise = 0.05;
constexpr double kPriorWeight = 4.0;

// The 95% quantile of Student's t, by the expansion of Cornish and Fisher.
// Source: Abramowitz and Stegun (1964), 26.7.5.
double TQuantile95(double freedom) {
  constexpr double kZ = 1.6448536;
  return kZ + (kZ * kZ * kZ + kZ) / (4.0 * freedom) +
         (5.0 * std::pow(kZ, 5) + 16.0 * kZ * kZ * kZ + 3.0 * kZ) /
             (96.0 * freedom * freedom);
}

// The predicted parts of a measured step and what was measured.
struct Sample {
  Calibration::Parts parts_s;
  double log_measured = 0.0;
};

// d log(sum_i f_i P_i) / d log f: the share of each part.
Calibration::Parts SharesOfParts(const Calibration& at,
                                 const Calibration::Parts& parts_s) {
  return at.factors.cwiseProduct(parts_s) / at.StepTime(parts_s);
}

// One Gauss-Newton step to the maximum of the posterior at the present noise.
void Improve(const std::vector<Sample>& samples, Calibration& fit) {
  const double weight = 1.0 / (fit.noise * fit.noise);
  const Eigen::Array3d prior = kFactorStddev.array().square().inverse();
  Eigen::Matrix3d precision = prior.matrix().asDiagonal();
  Eigen::Vector3d gradient = -prior * fit.factors.array().log();
  double squares = 0.0;
  for (const Sample& sample : samples) {
    const Eigen::Vector3d shares = SharesOfParts(fit, sample.parts_s);
    const double residual =
        sample.log_measured - std::log(fit.StepTime(sample.parts_s));
    precision += weight * shares * shares.transpose();
    gradient += weight * residual * shares;
    squares += residual * residual;
  }
  fit.covariance = precision.inverse();
  const Eigen::Array3d step = fit.covariance * gradient;
  fit.factors.array() *= step.max(-1.0).min(1.0).exp();
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
  const double prior = 1.0 / (kMemoryStddev * kMemoryStddev);
  double noise = kMemoryNoise;
  double mean = 0.0;
  double precision = 0.0;
  constexpr int kIterations = 20;
  for (int i = 0; i < kIterations; ++i) {
    const double weight = n / (noise * noise);
    precision = prior + weight;
    double squares = 0.0;
    for (const double ratio : ratios) {
      squares += (ratio - mean) * (ratio - mean);
    }
    mean = weight / precision * common::Mean(ratios);
    noise = std::sqrt((kPriorWeight * kMemoryNoise * kMemoryNoise + squares) /
                      (kPriorWeight + n));
  }
  fit.memory = std::exp(mean);
  fit.memory_log_stddev = std::sqrt(1.0 / precision + noise * noise);
}

void AddTrials(const fs::path& run_folder, std::vector<MeasuredStep>& steps) {
  for (const trials::Trial& trial : trials::ReadTrials(run_folder)) {
    if (trial.HasThroughput() && !trial.IsPlan()) {
      steps.push_back({trial.config, 0, 1.0 / trial.throughput.steps_per_s,
                       trial.measurement.peak_memory_bytes.value_or(0.0)});
    }
  }
}

std::vector<MeasuredStep> ReadCsv(const fs::path& path,
                                  const trials::Workload& workload) {
  const common::CsvTable table = common::CsvTable::Read(path);
  CheckColumns(table, trials::BuiltInKnobs(), {"step_time_s"}, {});
  std::vector<MeasuredStep> steps;
  for (const auto& csv_row : table.rows()) {
    const trials::MeasuredRow row =
        ReadMeasuredRow({table, csv_row}, trials::BuiltInKnobs(),
                        {static_cast<double>(workload.batch_size),
                         static_cast<double>(workload.sequence_length)});
    if (std::isnan(row.step_time_s)) {
      continue;
    }
    MeasuredStep step{.config = row.config,
                      .batch_size = row.facts.Int("global_batch_size", 0),
                      .step_time_s = row.step_time_s,
                      .peak_memory_bytes = std::isnan(row.peak_memory_bytes)
                                               ? 0.0
                                               : row.peak_memory_bytes};
    if (step.config.micro_batch_size > 0) {
      step.batch_size = step.config.dp * step.config.microbatches *
                        step.config.micro_batch_size;
      step.config.micro_batch_size = 0;
    }
    steps.push_back(step);
  }
  return steps;
}

}  // namespace

Calibration::Parts PartsOf(const trials::TimeBreakdown& time,
                           const trials::ParallelConfig& config,
                           const trials::Cluster& cluster) {
  const double inner_s = time.tensor_s + time.context_s;
  const double outer_s = time.expert_s + time.data_s + time.pipeline_s;
  const bool inner_crosses =
      cluster.nodes > 1 && config.tp * config.cp > cluster.gpus_per_node;
  const bool outer_crosses = cluster.nodes > 1;
  const double between_s =
      (inner_crosses ? inner_s : 0.0) + (outer_crosses ? outer_s : 0.0);
  return {time.Total() - inner_s - outer_s, inner_s + outer_s - between_s,
          between_s};
}

double Calibration::BandFactor(const Parts& parts_s) const {
  const Parts shares = SharesOfParts(*this, parts_s);
  const double variance = noise * noise + shares.dot(covariance * shares);
  return std::exp(TQuantile95(kPriorWeight + step_times) * std::sqrt(variance));
}

std::vector<MeasuredStep> ReadMeasuredSteps(const fs::path& path,
                                            const trials::Workload& workload) {
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
    steps = ReadCsv(path, workload);
  }
  if (steps.empty()) {
    throw InputError(fmt::format("--calibrate {}: no measured step time in it",
                                 path.string()));
  }
  return steps;
}

namespace {

// A measured step with the report of its simulation.
struct Simulated {
  const MeasuredStep* step;
  trials::StepReport report;
  Calibration::Parts parts_s;
};

std::vector<Simulated> SimulateSteps(const Job& job,
                                     const std::vector<MeasuredStep>& steps) {
  // Those of the job on part of its machine, by number of GPUs and batch.
  std::map<std::pair<int, int>, trials::Simulator> simulators;
  std::vector<Simulated> simulated;
  std::string reason;
  for (const MeasuredStep& step : steps) {
    const trials::ParallelConfig& config = step.config;
    const int gpus = trials::GpusOf(config);
    trials::Workload workload = job.workload;
    if (step.batch_size > 0) {
      workload.batch_size = step.batch_size;
    }
    try {
      const trials::Cluster cluster = trials::WithGpus(job.cluster, gpus);
      const trials::Simulator& simulator =
          simulators
              .try_emplace({gpus, workload.batch_size}, workload, cluster,
                           trials::Simulator::Options{job.framework.framework})
              .first->second;
      const trials::StepReport report = simulator.Simulate(config);
      simulated.push_back(
          {&step, report, PartsOf(report.time, config, cluster)});
    } catch (const std::invalid_argument& e) {
      reason = e.what();
    }
  }
  if (simulated.empty()) {
    throw InputError(fmt::format(
        "none of the {} measured configurations can be simulated: {}",
        steps.size(), reason));
  }
  return simulated;
}

}  // namespace

Calibration Calibrate(const Job& job, const std::vector<MeasuredStep>& steps) {
  std::vector<Sample> samples;
  std::vector<double> peaks;
  for (const Simulated& one : SimulateSteps(job, steps)) {
    samples.push_back({one.parts_s, std::log(one.step->step_time_s)});
    if (one.step->peak_memory_bytes > 0.0) {
      peaks.push_back(
          std::log(one.step->peak_memory_bytes / one.report.peak_memory_bytes));
    }
  }
  Calibration fit;
  FitTimes(samples, fit);
  FitPeaks(peaks, fit);
  return fit;
}

CheckedErrors CheckCalibration(const Job& job, const Calibration& calibration,
                               const std::vector<MeasuredStep>& steps) {
  std::vector<double> before;
  std::vector<double> after;
  CheckedErrors errors;
  for (const Simulated& one : SimulateSteps(job, steps)) {
    const double measured_s = one.step->step_time_s;
    const double calibrated_s = calibration.StepTime(one.parts_s);
    before.push_back(std::abs(one.report.step_time_s / measured_s - 1.0));
    after.push_back(std::abs(calibrated_s / measured_s - 1.0));
    if (!calibration.empty() &&
        std::abs(std::log(measured_s / calibrated_s)) <=
            std::log(calibration.BandFactor(one.parts_s))) {
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
