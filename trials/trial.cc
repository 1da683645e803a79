#include "trials/trial.h"

#include <cmath>
#include <utility>
#include <variant>

#include "trials/knobs.h"
#include "trials/record.h"

namespace trials {

bool Trial::HasThroughput() const {
  return throughput.steps_per_s >= 1.0 / kMostStepSeconds &&
         throughput.steps_per_s <= 1.0 / kLeastStepSeconds &&
         measurement.outcome != Outcome::kOutOfMemory &&
         measurement.outcome != Outcome::kFailed;
}

Trial MakeTrial(int index, const Candidate& candidate, Measurement measurement,
                const ThroughputOptions& options) {
  Trial trial{.candidate = index,
              .config = candidate.config(),
              .plan = candidate.IsPlan() ? candidate.Label() : "",
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

int GpusOf(const Trial& trial, int machine_gpus) {
  return trial.IsPlan() ? machine_gpus : GpusOf(trial.config);
}

double WeightOf(const Trial& trial, const Weight& weight) {
  return weight.OfGpus(GpusOf(trial, weight.machine_gpus));
}

std::vector<CustomValue> CustomValues(const ParallelConfig& config,
                                      const KnobSet& knobs) {
  std::vector<CustomValue> values;
  for (const Knob& knob : knobs) {
    if (std::holds_alternative<Knob::Custom>(knob.storage)) {
      values.push_back({knob.name, knob.Text(knob.Get(config))});
    }
  }
  return values;
}

std::string CandidateLabel(const Trial& trial) {
  if (trial.IsPlan()) {
    return trial.plan;
  }
  std::string label = ToString(trial.config);
  for (const CustomValue& custom : trial.custom) {
    if (custom.value.empty()) {
      continue;  // the trial is from before the knob was added
    }
    label += "," + custom.knob + "=" + custom.value;
  }
  return label;
}

}  // namespace trials
