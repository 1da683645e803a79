// One trial of a search: its configuration, its measurement and the estimates
// derived from it.

#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "common/fields.h"
#include "trials/candidate.h"
#include "trials/measurement.h"
#include "trials/objective.h"
#include "trials/parallel_config.h"

namespace trials {

class SearchSpace;

// How a candidate was chosen; kGiven: named in the manifest;
// kImported: measured elsewhere.
enum class ChosenBy { kUnspecified, kRandom, kModel, kGiven, kImported };
constexpr std::array<std::string_view, 5> NamesOf(ChosenBy /*type*/) {
  return {"", "random", "model", "given", "imported"};
}

// The value of a knob that is not built in, as text.
struct CustomValue {
  std::string knob;
  std::string value;

  friend bool operator==(const CustomValue&, const CustomValue&) = default;
};

// In memory, in the records and on resume a trial has the same values; only
// step times are in a separate file (steps.csv).
struct Trial {
  int number = 0;     // from 1
  int candidate = 0;  // index into the search space; -1: a plan
  // Candidate::config.
  ParallelConfig config;
  // Records have a column for each of these, behind those of the configuration.
  std::vector<CustomValue> custom;
  // The text of a plan, whose stages differ; "" for a configuration. Neither
  // commas nor line breaks.
  std::string plan;
  Measurement measurement;
  int steps = 0;                  // that ran: the size of step_times_s
  ThroughputEstimate throughput;  // by the options of the method
  double elapsed_s = 0.0;         // search time when it ended
  // The throughput of the incumbent: of the completed trials so far, the one
  // with the highest value (Weight).
  double incumbent_steps_per_s = kUnknown;
  double exact_steps_per_s = kUnknown;  // noise-free, where known
  ChosenBy chosen_by = ChosenBy::kUnspecified;
  // Its place in the order of suggestions, from 1, of a search with several
  // trials in flight; absent: `number`.
  std::optional<int> suggestion = std::nullopt;

  [[nodiscard]] bool IsPlan() const { return !plan.empty(); }

  // Whether its throughput is a sample of the candidate's: it ran a step after
  // the warm-up, and neither ran out of memory nor failed.
  [[nodiscard]] bool HasThroughput() const;
};

// The columns of trials.csv, in their order: those of the measurement but its
// losses, with the number of steps and the estimate in place of the step times,
// and the message at the end.
void VisitFields(common::FieldsOf<Trial> auto& trial, const auto& visit) {
  visit("trial", trial.number);
  visit("candidate", trial.candidate);
  visit("config", trial.config);
  visit("custom", trial.custom);
  VisitFields(trial.measurement, [&](const char* name, auto& field) {
    using Field = std::remove_cvref_t<decltype(field)>;
    if constexpr (std::is_same_v<Field, std::string>) {  // the message
      visit("elapsed_s", trial.elapsed_s);
      visit("incumbent_steps_per_s", trial.incumbent_steps_per_s);
      visit("exact_steps_per_s", trial.exact_steps_per_s);
      visit("chosen_by", trial.chosen_by);
      visit("suggestion", trial.suggestion);
    }
    if constexpr (std::is_same_v<Field, std::vector<double>>) {  // the steps
      visit("steps", trial.steps);
      visit("throughput_steps_per_s", trial.throughput.steps_per_s);
      visit("throughput_variance", trial.throughput.variance);
    } else if constexpr (!std::is_same_v<Field, std::optional<LossCurve>>) {
      visit(name, field);
    }
  });
}

// The trial of a candidate with its estimate and with texts as the records hold
// them; the search fills in number, search time and incumbent.
[[nodiscard]] Trial MakeTrial(int index, const Candidate& candidate,
                              Measurement measurement,
                              const ThroughputOptions& options = {});

// The GPUs of a trial. Plans use all of the machine.
[[nodiscard]] int GpusOf(const Trial& trial, int machine_gpus);

// What a second of the trial weighs.
[[nodiscard]] double WeightOf(const Trial& trial, const Weight& weight);

// The values of the knobs that are not built in.
[[nodiscard]] std::vector<CustomValue> CustomValues(
    const ParallelConfig& config, const KnobSet& knobs);

// Their names.
[[nodiscard]] std::vector<std::string> CustomNames(const SearchSpace& space);

// The candidate of a trial whose number of the candidate is of another space;
// absent if it is none of this one. A knob that the trial lacks has its
// default.
[[nodiscard]] std::optional<int> FindCandidate(const Trial& trial,
                                               const SearchSpace& space);
// The trial with that number and configuration, or, of a plan, as it is.
[[nodiscard]] std::optional<Trial> TrialIn(const SearchSpace& space,
                                           Trial trial);

// The configuration or plan that was tried, for display and for comparison:
// ToString with the knobs of the space.
[[nodiscard]] std::string CandidateLabel(const Trial& trial);

}  // namespace trials
