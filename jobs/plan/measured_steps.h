// Measured step times and peaks, from which a plan learns how far predictions
// are off.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/predictions/calibration.h"
#include "trials/parallel_config.h"
#include "trials/workload.h"

namespace jobs {

struct Job;

using harness::Calibration;

// One measured configuration.
struct MeasuredStep {
  trials::ParallelConfig config;
  int batch_size = 0;              // sequences per step; 0: that of the job
  double step_time_s = 0.0;        // 0: it ran out of memory
  double peak_memory_bytes = 0.0;  // 0: unknown
};

struct MeasuredSteps {
  std::vector<MeasuredStep> steps;
  std::string
      note;  // why they may not be of the job; "": nothing speaks for it
};

// Reads measured steps: a CSV file with the columns of trials::MeasuredRow,
// among them a step time or throughput and every parameter that is not at its
// default (rows that failed are left out, unless they ran out of memory); or a
// folder with results of this program, whose trials should be measured ones of
// this model. The job's workload converts samples/s and tokens/s.
// Errors: throws InputError with file:line; of a folder, for trials with
// another number of tokens per step.
[[nodiscard]] MeasuredSteps ReadMeasuredSteps(const std::filesystem::path& path,
                                              const Job& job);

// Learns from measured steps of a job's model and framework on any number of
// its nodes.
// Errors: throws InputError if none of them can be simulated.
[[nodiscard]] Calibration Calibrate(const Job& job,
                                    const MeasuredSteps& measured);

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
  std::string note;     // about rows that are left out
};
// Errors: as Calibrate.
[[nodiscard]] CheckedErrors CheckCalibration(
    const Job& job, const Calibration& calibration,
    const std::vector<MeasuredStep>& steps);

}  // namespace jobs
