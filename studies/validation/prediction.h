// What the simulator says about the rows of a table.

#ifndef STUDIES_VALIDATION_PREDICTION_H_
#define STUDIES_VALIDATION_PREDICTION_H_

#include <limits>
#include <string>
#include <vector>

#include "studies/validation/measured_table.h"

namespace studies {

// Time and memory are there for a row that does not fit, too: what it would
// take on a GPU with more memory. There are none for a row that is no
// configuration of its problem (more stages than layers, ...): it does not
// run, which tables write as "oom" like any other crash.
struct Prediction {
  double step_time_s = std::numeric_limits<double>::quiet_NaN();
  double peak_memory_bytes = std::numeric_limits<double>::quiet_NaN();
  bool fits = false;
  std::string refused;   // why it cannot run, whatever the memory
  std::string left_out;  // why nothing is said about the row

  // "ok", "oom" (does not run) or "left_out".
  [[nodiscard]] std::string Status() const;
};

// One for each row, in their order.
[[nodiscard]] std::vector<Prediction> Predict(const MeasuredTable& table);

}  // namespace studies

#endif  // STUDIES_VALIDATION_PREDICTION_H_
