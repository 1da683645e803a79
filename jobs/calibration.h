// Measured step times and peaks, from which a plan learns how far predictions
// are off.

#ifndef JOBS_CALIBRATION_H_
#define JOBS_CALIBRATION_H_

#include <filesystem>
#include <vector>

#include <Eigen/Core>

#include "common/error.h"
#include "trials/cluster.h"
#include "trials/parallel_config.h"
#include "trials/simulator/step_report.h"
#include "trials/workload.h"

namespace jobs {

struct Job;

// One measured configuration.
struct MeasuredStep {
  trials::ParallelConfig config;
  int batch_size = 0;              // sequences per step; 0: that of the job
  double step_time_s = 0.0;        // 0: it ran out of memory
  double peak_memory_bytes = 0.0;  // 0: unknown
};

// Factors of predictions. A step takes
//
//   log T = log(sum_i f_i P_i) + e,   e ~ N(0, s^2),
//
// where the parts P_i are the predicted computation, the exposed communication
// within nodes, and that between nodes. The log f_i have normal priors around
// 0, and s an inverse-gamma prior; the posterior is approximated around its
// maximum (Laplace), and the band of a prediction is that of a Student's t. A
// part that no measurement contains keeps the width of its prior: trials on one
// node say nothing about the network. Peaks have one factor with a normal
// prior.
//
// Source: MacKay (1992), "Bayesian interpolation"; Gelman et al., "Bayesian
// data analysis", Sec. 14.
struct Calibration {
  int step_times = 0;  // measured ones
  int peaks = 0;
  using Parts = Eigen::Vector3d;
  Parts factors = Parts::Ones();
  double memory = 1.0;
  Eigen::Matrix3d covariance = Eigen::Matrix3d::Zero();  // of the log factors
  double noise = 0.0;                                    // s
  // Standard deviation of log(measured / predicted) peak; 0: the framework's.
  double memory_log_stddev = 0.0;

  [[nodiscard]] bool empty() const { return step_times == 0 && peaks == 0; }
  [[nodiscard]] double StepTime(const Parts& parts_s) const {
    return factors.dot(parts_s);
  }
  // The factor by which nine of ten measured step times are at most off the
  // calibrated prediction: they are in [T / f, T f].
  [[nodiscard]] double BandFactor(const Parts& parts_s) const;
};

// The parts of a step on this machine. Communication is between nodes if its
// group is larger than a node: that of the innermost groups, tensor and context
// parallelism, by their size, and that of all others on several nodes.
[[nodiscard]] Calibration::Parts PartsOf(const trials::TimeBreakdown& time,
                                         const trials::ParallelConfig& config,
                                         const trials::Cluster& cluster);

// Reads measured steps: a CSV file with the columns of trials::MeasuredRow,
// among them a step time or throughput and every parameter that is not at its
// default (rows that did not run are left out); or a folder with results of
// this program. `workload` converts samples/s and tokens/s.
// Errors: throws InputError with file:line.
[[nodiscard]] std::vector<MeasuredStep> ReadMeasuredSteps(
    const std::filesystem::path& path, const trials::Workload& workload);

// Learns from measured steps of a job's model and framework on any number of
// its nodes.
// Errors: throws InputError if none of them can be simulated.
[[nodiscard]] Calibration Calibrate(const Job& job,
                                    const std::vector<MeasuredStep>& steps);

// How far predictions of measured steps are off: |predicted / measured - 1|,
// before and after a calibration.
struct CheckedErrors {
  struct Average {
    double median = 0.0;
    double mean = 0.0;
  };
  int rows = 0;
  Average before;
  Average after;
  double inside = 0.0;  // share of the rows inside the band; 0 without one
};
// Errors: as Calibrate.
[[nodiscard]] CheckedErrors CheckCalibration(
    const Job& job, const Calibration& calibration,
    const std::vector<MeasuredStep>& steps);

}  // namespace jobs

#endif  // JOBS_CALIBRATION_H_
