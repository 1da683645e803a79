// Predictions of a simulator corrected by measured steps.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <Eigen/Core>

#include "trials/cluster.h"
#include "trials/parallel_config.h"
#include "trials/simulator/error_band.h"
#include "trials/simulator/framework.h"
#include "trials/simulator/step_report.h"
#include "trials/workload.h"

namespace harness {

// The parts of a predicted step that machines and frameworks stretch alike.
enum StepPart { kComputation, kLaunches, kInHosts, kNetwork, kMessages };
inline constexpr int kStepParts = 5;
using StepParts = Eigen::Vector<double, kStepParts>;  // s, or their factors

// Exposed communication is on the network if its group is larger than a host:
// that of the innermost groups, tensor and context parallelism, by their size,
// and that of all others on several hosts. Messages between stages are a part
// of their own, because they cost by number. The wait for other stages has the
// shares of what the stages do.
[[nodiscard]] StepParts StepPartsOf(const trials::TimeBreakdown& time,
                                    const trials::ParallelConfig& config,
                                    const trials::Cluster& cluster);

// A measured configuration beside its prediction.
struct CalibrationRow {
  trials::ParallelConfig config;
  StepParts parts_s = StepParts::Zero();
  double step_time_s = 0.0;  // measured; 0: it ran out of memory
  double predicted_peak_bytes = 0.0;
  double peak_memory_bytes = 0.0;  // measured; 0: unknown
  double capacity_bytes = 0.0;
};

// What is known before any measurement.
struct CalibrationPrior {
  double scatter = 0.1;        // s_0 below
  double guess = 0.0;          // a_0 below
  double memory_stddev = 0.1;  // of log(peak / predicted peak)

  // Nine of ten sources are inside the error band of the framework's kind of
  // code: s_0 is the logarithm of half of it over the 95% quantile of Cauchy's
  // distribution.
  // A guess (trials::Guess) has a wider band.
  [[nodiscard]] static CalibrationPrior Of(
      const trials::Framework& framework,
      const std::vector<trials::Guess>& guesses);
};

// What a calibration holds for: its factors for a kind of GPU and a framework,
// what it knows of single configurations also for one model.
struct CalibratedJob {
  std::string machine;
  std::string framework;
  std::string workload;

  [[nodiscard]] static CalibratedJob Of(const trials::Workload& workload,
                                        const trials::Cluster& cluster,
                                        const std::string& framework);
};

// A step of configuration x takes
//
//   log T = log(sum_i f_i P_i) + g(x) + e,    log f_i = u_0 + u_i,
//
// with the predicted parts P_i, factors f_i that have u_0 in common, and a rest
// g that configurations near a measured one share, a Gaussian process over the
// knobs (surrogates/gp). Both the errors e and the priors have heavy tails,
//
//   e ~ t_4(0, s^2),    u_i ~ Cauchy(0, (s_0 / 10)^2 + [i = 0] a_0^2),
//
// so that a stalled row among others moves nothing, and a prediction that is
// right stays: a residual as small as the scatter moves no factor, one that
// several rows share is believed. s^2 has an inverse-gamma prior around s_0^2
// with the weight of two rows. The maximum of the posterior is found by
// iteratively reweighted least squares: Newton steps with the weight
// (d + 1) / (d s^2 + e^2) of a t with d degrees of freedom, from the prior and
// from the median residual, because there may be two maxima; its covariance is
// that of the last step. Factors without evidence keep their prior: trials on
// one host say nothing about the network. The amplitude, the length and the
// share of g in the scatter are averaged over a grid by their likelihood, with
// a g that no two configurations share among them.
//
// A peak is log M = log(predicted) + m + e_M. Measured peaks have a density of
// t_4; rows that ran out of memory say M > capacity, those that ran without a
// known peak M < capacity, each with Phi of the margin. m has a normal prior,
// and its posterior is integrated on a grid.
//
// Source: Lange, Little and Taylor (1989), "Robust statistical modeling using
// the t distribution"; Gelman et al., "Bayesian data analysis", Sec. 17;
// Kennedy and O'Hagan (2001), "Bayesian calibration of computer models".
struct Calibration {
  using Covariance = Eigen::Matrix<double, kStepParts, kStepParts>;

  // log(measured / calibrated) of a row, which g explains.
  struct Residual {
    trials::ParallelConfig config;
    double log_ratio = 0.0;
    double variance = 0.0;  // of e, by the weight of the row
  };

  CalibratedJob job;
  std::string note;    // a warning for the user; "": none
  int step_times = 0;  // rows with a measured one
  int bounds = 0;      // rows that ran out of memory
  StepParts factors = StepParts::Ones();
  Covariance covariance = Covariance::Zero();  // of log f
  double noise = 0.0;                          // s
  double memory = 1.0;
  double memory_log_stddev = 0.0;  // 0: the framework's
  std::vector<Residual> residuals;

  [[nodiscard]] bool empty() const { return step_times + bounds == 0; }
  // What measured steps take of the predicted computation: the factor, and what
  // half of the rows leave to the scatter.
  [[nodiscard]] double Slowdown() const;
};

// The calibration as a TOML file, and back for a job: the same forecast. For
// another model it keeps its factors, with a note.
// Errors: ReadCalibration throws InputError with file:line:column, also for
// another GPU or framework.
[[nodiscard]] std::string ToToml(const Calibration& calibration);
[[nodiscard]] Calibration ReadCalibration(const std::filesystem::path& path,
                                          const CalibratedJob& job);

[[nodiscard]] Calibration Calibrate(const std::vector<CalibrationRow>& rows,
                                    const CalibrationPrior& prior);

// Refuses measurements that take `factor` of the predicted computation where
// that is outside of ErrorBands::Limits of step times: they are of another job.
// `source`: what the message begins with, "--calibrate FILE".
// Errors: throws InputError with the factor and what may explain it.
void RefuseForeign(double factor, const std::vector<trials::Guess>& guesses,
                   const std::string& source);

// Calibrated step times.
class CalibratedTimes {
 public:
  struct Time {
    double step_time_s = 0.0;
    // Nine of ten measured step times are in [T / band, T band].
    double band = 1.0;
  };

  // Predicts the rest g of these configurations at once; any other has none,
  // unless it differs from them in buckets and overlaps only.
  CalibratedTimes(const Calibration& calibration,
                  const std::vector<trials::ParallelConfig>& configs);

  [[nodiscard]] Time Of(const trials::ParallelConfig& config,
                        const StepParts& parts_s) const;

 private:
  Calibration calibration_;
  std::vector<trials::ParallelConfig> configs_;  // sorted, one per point
  Eigen::VectorXd rest_;                         // mean of g
  Eigen::VectorXd variance_;                     // of g
};

}  // namespace harness
