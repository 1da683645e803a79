// Comparison of predictions with measurements, for groups of rows.

#ifndef STUDIES_VALIDATION_COMPARISON_H_
#define STUDIES_VALIDATION_COMPARISON_H_

#include <string>
#include <vector>

#include "studies/validation/measured_table.h"
#include "studies/validation/prediction.h"
#include "studies/validation/statistics.h"

namespace studies {

// Numbers of one group of rows.
struct Comparison {
  std::string gpu;  // GPU type
  // "all", "one host", "several hosts", "up to 256 GPUs", "over 256 GPUs",
  // "within 2x of best" (of its scenario, as measured); or a group of operators
  // or collectives (prediction.h), whose times are in step_time.
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
  int out_of_memory_rows = 0;         // measured
  OutOfMemoryCounts out_of_memory;    // or refused
  // Predicted to need too much memory, though they ran; and predicted to fit,
  // though they did not.
  Share ran_called_oom;     // of the rows that ran
  Share failed_called_fit;  // of the rows that failed
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

#endif  // STUDIES_VALIDATION_COMPARISON_H_
