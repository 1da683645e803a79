// The simulated time of an operator or a collective.

#ifndef STUDIES_VALIDATION_PART_TIME_H_
#define STUDIES_VALIDATION_PART_TIME_H_

#include <string>

#include "studies/validation/measured_table.h"

namespace studies {

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

#endif  // STUDIES_VALIDATION_PART_TIME_H_
