#include "harness/incumbent.h"

#include <cmath>

namespace harness {

void Incumbent::Add(const trials::Trial& trial) {
  const double value = trial.throughput.steps_per_s / WeightOf(trial, weight_);
  if (trial.measurement.outcome == trials::Outcome::kCompleted &&
      trial.HasThroughput() && !std::isnan(value) && !(value <= value_)) {
    value_ = value;
    steps_per_s_ = trial.throughput.steps_per_s;
  }
}

}  // namespace harness
