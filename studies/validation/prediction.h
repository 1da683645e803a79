// The simulator's predictions for the rows of a table.

#ifndef STUDIES_VALIDATION_PREDICTION_H_
#define STUDIES_VALIDATION_PREDICTION_H_

#include <limits>
#include <string>
#include <vector>

#include "studies/validation/measured_table.h"

namespace studies {

// A row that does not fit in memory has a time and a peak too: those on a GPU
// with more memory. A row whose configuration is invalid (more stages than
// layers, ...) has neither: it does not run, which tables report as "oom" like
// any other crash.
struct Prediction {
  double step_time_s = std::numeric_limits<double>::quiet_NaN();
  double peak_memory_bytes = std::numeric_limits<double>::quiet_NaN();
  bool fits = false;
  double fit_probability = 0.0;  // trials::FitProbability
  std::string refused;           // why the configuration is invalid
  std::string left_out;          // why there is no prediction

  // "ok", "oom" (does not run) or "left_out".
  [[nodiscard]] std::string Status() const;
};

// One for each row, in their order.
[[nodiscard]] std::vector<Prediction> Predict(const MeasuredTable& table);

// Seconds of the operator or collective of a row. An operator is the sum of its
// forward and its backward on one microbatch of the row's configuration, with
// its all-reduces (TimedPart); each combines GPU and CPU time as an action of
// the simulator does (trials/simulator/action_time.h). NaN if the model has no
// such operator. A collective is among all GPUs of the row and includes the
// framework's copies.
[[nodiscard]] double PartTime(const MeasuredRow& row);

// An operator of a transformer block.
[[nodiscard]] bool IsOfBlock(const MeasuredRow& row);

// The group of rows whose errors are summarized together: "softmax",
// "all-reduce x4".
[[nodiscard]] std::string PartGroup(const MeasuredRow& row);

}  // namespace studies

#endif  // STUDIES_VALIDATION_PREDICTION_H_
