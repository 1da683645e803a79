#include "trials/trial.h"

#include <cmath>
#include <stdexcept>
#include <utility>
#include <variant>

#include "common/ranges.h"
#include "common/text.h"
#include "trials/knobs.h"
#include "trials/record.h"
#include "trials/search_space.h"

namespace trials {

bool Trial::HasThroughput() const {
  return throughput.steps_per_s >= 1.0 / kMostStepSeconds &&
         throughput.steps_per_s <= 1.0 / kLeastStepSeconds &&
         measurement.outcome != Outcome::kOutOfMemory &&
         measurement.outcome != Outcome::kFailed &&
         measurement.outcome != Outcome::kDiverged;
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

std::vector<std::string> CustomNames(const SearchSpace& space) {
  const auto values = CustomValues(ParallelConfig{}, space.knobs());
  return common::Map(values, &CustomValue::knob);
}

std::optional<int> FindCandidate(const Trial& trial, const SearchSpace& space) {
  ParallelConfig config = trial.config;
  for (const CustomValue& custom : trial.custom) {
    const Knob* const knob = space.knobs().Find(custom.knob);
    if (custom.value.empty()) {
      continue;
    }
    if (knob == nullptr) {
      return std::nullopt;
    }
    try {
      knob->SetChecked(config, custom.value);
    } catch (const std::invalid_argument&) {
      return std::nullopt;  // the value is no longer listed
    }
  }
  return trial.IsPlan() ? std::nullopt : space.Find(config);
}

std::optional<Trial> TrialIn(const SearchSpace& space, Trial trial) {
  if (!trial.IsPlan()) {
    const std::optional<int> candidate = FindCandidate(trial, space);
    if (!candidate) {
      return std::nullopt;
    }
    trial.candidate = *candidate;
    trial.config = space[*candidate];
  }
  return trial;
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
