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

Replay::Replay(const SearchInput& input) : in_(input) {
  for (const Trial& trial : in_.journal.committed()) {
    if (!HasOtherInput(trial)) {
      last_place_ = std::max(last_place_, PlaceOf(trial));
    }
  }
}

const Trial* Replay::Next() const {
  const std::vector<Trial>& committed = in_.journal.committed();
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
  in_.journal.SkipFits(recorded.number);
  std::optional<Trial> trial = TrialIn(in_.space, recorded);
  if (trial &&
      in_.method.history().HasTried(trial->candidate, CandidateLabel(*trial))) {
    trial.reset();
  }
  return trial;
}

Trial Replay::Confirm(const methods::Suggestion* suggestion) {
  const Trial& recorded = *Next();
  ++next_;
  Trial trial = recorded;
  trial.throughput =
      trials::EstimateThroughput(trial.measurement.step_times_s,
                                 in_.method.history().throughput_options());
  if (suggestion == nullptr || !IsOf(recorded, *suggestion) ||
      ToRow(trial) != ToRow(recorded) ||
      !in_.journal.CheckFits(FitRecords(recorded.number, *suggestion))) {
    throw common::InputError(fmt::format(
        "trial {} is recorded as {} with {} steps/s, but this program gives "
        "{} with {}: the records are of another version; use another "
        "--results folder, or that version of oppa",
        recorded.number, CandidateLabel(recorded),
        recorded.throughput.steps_per_s,
        suggestion != nullptr ? suggestion->LabelIn(in_.space) : "nothing",
        trial.throughput.steps_per_s));
  }
  trial.config = suggestion->In(in_.space).config();
  return trial;
}

bool Replay::HasOtherInput(const Trial& recorded) const {
  return recorded.number <= in_.adopted ||
         recorded.chosen_by == ChosenBy::kImported;
}

bool Replay::IsOf(const Trial& recorded,
                  const methods::Suggestion& suggestion) const {
  return recorded.candidate == suggestion.candidate &&
         (CandidateLabel(recorded) == suggestion.LabelIn(in_.space) ||
          FindCandidate(recorded, in_.space) == suggestion.candidate);
}

}  // namespace harness
