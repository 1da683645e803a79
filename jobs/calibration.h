// Measured step times and peaks, from which a plan learns how far predictions
// are off.

#ifndef JOBS_CALIBRATION_H_
#define JOBS_CALIBRATION_H_

#include <array>
#include <filesystem>
#include <optional>
#include <vector>

#include "common/error.h"
#include "trials/parallel_config.h"
#include "trials/simulator/step_report.h"

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
//   log T = log(c C + n N) + e,   e ~ N(0, s^2),
//
// where C is the predicted time of everything but communication, and N the
// exposed communication. log c and log n have normal priors around 0, and s an
// inverse-gamma prior; the posterior is approximated around its maximum
// (Laplace), and the band of a prediction is that of a Student's t. Peaks have
// one factor with a normal prior.
//
// Source: MacKay (1992), "Bayesian interpolation"; Gelman et al., "Bayesian
// data analysis", Sec. 14.
struct Calibration {
  int step_times = 0;  // measured ones
  int peaks = 0;
  double compute = 1.0;
  double communication = 1.0;
  double memory = 1.0;
  // Covariance of (log c, log n): {var c, cov, var n}.
  std::array<double, 3> covariance{};
  double noise = 0.0;  // s
  // Standard deviation of log(measured / predicted) peak; 0: the framework's.
  double memory_log_stddev = 0.0;

  [[nodiscard]] bool empty() const { return step_times == 0 && peaks == 0; }
  [[nodiscard]] double StepTime(const trials::TimeBreakdown& time) const;
  // The factor by which nine of ten measured step times are at most off the
  // calibrated prediction: they are in [T / f, T f].
  [[nodiscard]] double BandFactor(const trials::TimeBreakdown& time) const;
};

// The exposed communication of a step.
[[nodiscard]] double CommunicationTime(const trials::TimeBreakdown& time);

// Reads measured steps: a CSV file with a column of each parameter that is not
// at its default, `step_time_s`, and optionally `peak_memory_gb`, `batch_size`
// and `status` (rows other than "ok" are left out); or a folder with results of
// this program.
// Errors: throws InputError with file:line.
[[nodiscard]] std::vector<MeasuredStep> ReadMeasuredSteps(
    const std::filesystem::path& path);

// Learns from measured steps of a job's model and framework on any number of
// its nodes.
// Errors: throws InputError if none of them can be simulated.
[[nodiscard]] Calibration Calibrate(const Job& job,
                                    const std::vector<MeasuredStep>& steps);

}  // namespace jobs

#endif  // JOBS_CALIBRATION_H_
