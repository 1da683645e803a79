// The simulator's predictions for the rows of a table, and their comparison
// with the measurements, for groups of rows.

#pragma once

#include <limits>
#include <string>
#include <vector>

#include "studies/validation/measured_table.h"
#include "studies/validation/statistics.h"

namespace studies {

// A row that does not fit in memory has a time and a peak too: those on a GPU
// with more memory. A row whose configuration is invalid (more stages than
// layers, ...) has neither: it does not run, which tables report as "oom" like
// any other crash.
struct Prediction {
  double step_time_s = std::numeric_limits<double>::quiet_NaN();
  double peak_memory_bytes = std::numeric_limits<double>::quiet_NaN();
  bool fits = false;
  // trials::FitProbability; NaN if refused.
  double fit_probability = std::numeric_limits<double>::quiet_NaN();
  std::string refused;   // why the configuration is invalid
  std::string left_out;  // why there is no prediction

  // "ok", "oom", "refused" (an invalid configuration) or "left_out".
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

// Numbers of one group of rows.
struct Comparison {
  std::string gpu;  // GPU type
  // "all", "one host", "several hosts", "up to 256 GPUs", "over 256 GPUs",
  // "within 2x of best" (of its scenario, as measured), "clean"
  // (MeasuredRow::clean); or a group of operators
  // or collectives (PartGroup), whose times are in step_time.
  std::string scope;
  Half half = Half::kAll;
  int rows = 0;  // with a prediction
  int scenarios = 0;
  ErrorSummary step_time;
  ErrorSummary peak_memory;
  double spearman = kUndefined;  // of step times, mean over scenarios
  int ranked_scenarios = 0;      // with a rank correlation
  // The simulator's own pick, over scenarios of at least 8 configurations.
  int picks = 0;
  int failed_picks = 0;               // whose first try ran out of memory
  double pick_slowdown = kUndefined;  // mean over scenarios
  // Of the same scenarios, Ordering::fastest_slowdown, mean over those where
  // something ran.
  double fastest_slowdown = kUndefined;
  Share pairs;  // Ordering::pairs, of all scenarios
  // How many of the rows that are predicted to run out of memory, or refused,
  // did.
  Share precision;
  Share recall;  // out of the rows that ran out of memory
  // Predicted to need too much memory, out of the rows that ran.
  Share ran_called_oom;
};

// One comparison for every GPU type, every scope that contains some of its
// rows, and every half.
[[nodiscard]] std::vector<Comparison> Compare(
    const MeasuredTable& table, const std::vector<Prediction>& predictions);

// Lines for a terminal, including the reasons for rows that were left out.
[[nodiscard]] std::string ToText(const MeasuredTable& table,
                                 const std::vector<Prediction>& predictions,
                                 const std::vector<Comparison>& comparisons);

// The comparisons as one line of JSON: an object with the table's name, title
// and number of rows. Shares, not percent; null: undefined.
[[nodiscard]] std::string ToJson(const MeasuredTable& table,
                                 const std::vector<Comparison>& comparisons);

// The table's rows and columns, then predicted_step_time_s,
// predicted_peak_memory_gb (1e9 bytes, or the table's unit) and
// predicted_status (ok, oom, or left_out with nothing predicted), the same as
// measured, and the source, half and machine of the row (docs/validation.md).
[[nodiscard]] std::string ToCsv(const MeasuredTable& table,
                                const std::vector<Prediction>& predictions);

}  // namespace studies
