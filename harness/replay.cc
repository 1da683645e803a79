#include "harness/replay.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "common/error.h"

namespace harness {

using trials::ChosenBy;
using trials::Trial;

std::vector<trials::FitRecord> FitRecords(
    int trial, const methods::Suggestion& suggestion) {
  std::vector<trials::FitRecord> records;
  for (const auto& [surrogate, summary] : suggestion.fits) {
    const auto add = [&, &name = surrogate](const std::string& parameter,
                                            double value) {
      records.push_back({trial, name, parameter, value});
    };
    for (const auto& parameter : summary.parameters) {
      add(parameter.name, parameter.value);
    }
    add("log_posterior", summary.log_posterior);
    add("evaluations", summary.evaluations);
    add("starts", summary.starts);
    add("jitter_retries", summary.jitter_retries);
    add("converged", summary.converged ? 1.0 : 0.0);
  }
  if (suggestion.remaining) {
    VisitFields(*suggestion.remaining, [&](const char* name, double value) {
      records.push_back({trial, "remaining", name, value});
    });
  }
  return records;
}

Replay::Replay(const trials::SearchSpace& space,
               const methods::History& history, Journal& journal, int adopted)
    : space_(space), history_(history), journal_(journal), adopted_(adopted) {
  for (const Trial& trial : journal_.committed()) {
    if (!HasOtherInput(trial)) {
      last_place_ = std::max(last_place_, PlaceOf(trial));
    }
  }
}

const Trial* Replay::Next() const {
  const std::vector<Trial>& committed = journal_.committed();
  return next_ < committed.size() ? &committed[next_] : nullptr;
}

bool Replay::IsAdopted(bool idle) const {
  const Trial* next = Next();
  return next != nullptr && (HasOtherInput(*next) ||
                             (next->chosen_by == ChosenBy::kGiven && idle));
}

std::optional<Trial> Replay::Adopt() {
  const Trial& recorded = *Next();
  ++next_;
  journal_.SkipFits(recorded.number);
  std::optional<Trial> trial = TrialIn(space_, recorded);
  if (trial && !HasOtherInput(recorded)) {  // as when it ran
    trial->throughput = trials::EstimateThroughput(
        recorded.measurement.step_times_s, history_.throughput_options());
  }
  if (trial && history_.HasTried(trial->candidate, CandidateLabel(*trial))) {
    trial.reset();
  }
  return trial;
}

Trial Replay::Confirm(const methods::Suggestion* suggestion) {
  const Trial& recorded = *Next();
  ++next_;
  Trial trial = recorded;
  trial.throughput = trials::EstimateThroughput(trial.measurement.step_times_s,
                                                history_.throughput_options());
  if (suggestion == nullptr || !IsOf(recorded, *suggestion) ||
      ToRow(trial) != ToRow(recorded) ||
      !journal_.CheckFits(FitRecords(recorded.number, *suggestion))) {
    throw common::InputError(fmt::format(
        "trial {} is recorded as {} with {} steps/s, but this program gives "
        "{} with {}: the records are of another version; use another "
        "--results folder, or that version of oppa",
        recorded.number, CandidateLabel(recorded),
        recorded.throughput.steps_per_s,
        suggestion != nullptr ? suggestion->LabelIn(space_) : "nothing",
        trial.throughput.steps_per_s));
  }
  trial.config = suggestion->In(space_).config();
  return trial;
}

bool Replay::HasOtherInput(const Trial& recorded) const {
  return recorded.number <= adopted_ ||
         recorded.chosen_by == ChosenBy::kImported;
}

bool Replay::IsOf(const Trial& recorded,
                  const methods::Suggestion& suggestion) const {
  return recorded.candidate == suggestion.candidate &&
         (CandidateLabel(recorded) == suggestion.LabelIn(space_) ||
          FindCandidate(recorded, space_) == suggestion.candidate);
}

}  // namespace harness
