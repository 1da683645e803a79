// The simulator's time of a part of a step.

#ifndef STUDIES_VALIDATION_PART_TIME_H_
#define STUDIES_VALIDATION_PART_TIME_H_

#include <string>

#include "studies/validation/measured_table.h"

namespace studies {

// Seconds of the part that the row is. An operator, forward and backward,
//
//   max(GPU and its all-reduces, CPU to issue both)  each way,
//
// (with what the table times beside it: TimedPart),
// on one microbatch of the row's configuration; NaN where the model has no such
// operator. A collective among all GPUs of the row, with the framework's
// copies.
[[nodiscard]] double PartTime(const MeasuredRow& row);

// An operator of a transformer block.
[[nodiscard]] bool IsOfBlock(const MeasuredRow& row);

// Rows whose errors belong together: "softmax", "all-reduce x4".
[[nodiscard]] std::string PartGroup(const MeasuredRow& row);

}  // namespace studies

#endif  // STUDIES_VALIDATION_PART_TIME_H_
