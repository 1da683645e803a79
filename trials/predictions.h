// Predictions of candidates that were made before any trial.

#ifndef TRIALS_PREDICTIONS_H_
#define TRIALS_PREDICTIONS_H_

#include <string>
#include <vector>

namespace trials {

// The predicted cost of every candidate of a search space, in its order. It
// need not be accurate: methods correct it by their trials.
//
// Shapes: [N]. Units: s and bytes, all finite and > 0.
struct Predictions {
  // The model behind the numbers and the machine that it describes, one line
  // for display: "simulator of a100-8x4, megatron-core".
  std::string source;
  std::vector<double> step_time_s;
  std::vector<double> peak_memory_bytes;  // per GPU, largest over all ranks
};

// The candidates that are predicted to fit, in ascending order of step time,
// then the others, in ascending order of memory. Ties keep the order of the
// space.
[[nodiscard]] std::vector<int> Order(const Predictions& predictions,
                                     double capacity_bytes);

}  // namespace trials

#endif  // TRIALS_PREDICTIONS_H_
