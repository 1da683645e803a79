#include "trials/trial.h"

#include <cmath>
#include <utility>

#include "trials/record.h"

namespace trials {

bool Trial::HasThroughput() const {
  // Records of earlier versions may have implausible values.
  return throughput.steps_per_s >= 1.0 / kMostStepSeconds &&
         throughput.steps_per_s <= 1.0 / kLeastStepSeconds &&
         measurement.outcome != Outcome::kOutOfMemory &&
         measurement.outcome != Outcome::kFailed;
}

Trial MakeTrial(int candidate,
                const ParallelConfig& config,
                Measurement measurement,
                const ThroughputOptions& options) {
  Trial trial{.candidate = candidate,
              .config = config,
              .measurement = std::move(measurement)};
  Measurement& made = trial.measurement;
  if (made.peak_memory_bytes && std::isnan(*made.peak_memory_bytes)) {
    made.peak_memory_bytes.reset();
  }
  RejectImplausible(made);
  made.message = AsCell(std::move(made.message));
  trial.steps = static_cast<int>(made.step_times_s.size());
  trial.throughput = EstimateThroughput(made.step_times_s, options);
  return trial;
}

std::string CandidateLabel(const Trial& trial) {
  return trial.plan.empty() ? ToString(trial.config) : trial.plan;
}

}  // namespace trials
