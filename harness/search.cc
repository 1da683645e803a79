#include "harness/search.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/hash.h"
#include "common/statistics.h"

namespace harness {
namespace {

using trials::FinishReason;
using trials::Outcome;
using trials::Trial;

// Time spent in the method since the last Take.
class SuggestionClock {
 public:
  template <typename Call>
  auto Measure(Call call) {
    const double wall_s = common::SteadySeconds();
    const double cpu_s = common::CpuSeconds();
    struct Stop {
      SuggestionClock* clock;
      double wall_s, cpu_s;
      ~Stop() {
        clock->spent_.wall_s += common::SteadySeconds() - wall_s;
        clock->spent_.cpu_s += common::CpuSeconds() - cpu_s;
      }
    } stop{this, wall_s, cpu_s};
    return call();
  }

  trials::SuggestionTime Take(int trial) {
    trials::SuggestionTime spent = std::exchange(spent_, {});
    spent.trial = trial;
    return spent;
  }

 private:
  trials::SuggestionTime spent_;
};

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

class Loop {
 public:
  explicit Loop(const SearchInput& input)
      : in_(input), incumbent_(input.method.history().weight()) {}

  SearchSummary Run() {
    for (const Trial& trial : in_.journal.committed()) {
      if (trial.number <= in_.adopted ||
          trial.chosen_by == trials::ChosenBy::kImported ||
          (trial.chosen_by == trials::ChosenBy::kGiven &&
           NextStart() == nullptr)) {  // SearchInput::next
        Adopt(trial);
      } else {
        Replay(trial);
      }
    }
    summary_.replayed = summary_.trials;
    while (Step()) {
    }
    return summary_;
  }

 private:
  [[nodiscard]] double Left() const {
    return in_.budget.time_s - summary_.elapsed_s;
  }

  [[nodiscard]] bool OutOfTime() const {
    return std::isfinite(in_.budget.time_s) &&
           Left() <= kBudgetSlack * in_.budget.time_s;
  }

  // The next start that was not tried; nullptr after the last.
  const methods::Suggestion* NextStart() {
    while (next_start_ < in_.starts.size() &&
           IsTried(in_.starts[next_start_])) {
      ++next_start_;
    }
    return next_start_ < in_.starts.size() ? &in_.starts[next_start_] : nullptr;
  }

  std::optional<methods::Suggestion> Suggest() {
    if (const methods::Suggestion* start = NextStart()) {
      return *start;
    }
    auto suggestion = clock_.Measure([this] { return in_.method.Suggest(); });
    estimates_ = estimates_ || (suggestion && suggestion->remaining);
    return suggestion;
  }

  [[nodiscard]] const methods::History& history() const {
    return in_.method.history();
  }

  [[nodiscard]] std::string LabelOf(
      const methods::Suggestion& suggestion) const {
    return suggestion.In(in_.space).Label(in_.space.knobs());
  }

  [[nodiscard]] bool IsTried(const methods::Suggestion& suggestion) const {
    return history().HasTried(suggestion.candidate, LabelOf(suggestion));
  }

  // The recorded trial is that of the suggestion.
  [[nodiscard]] bool Matches(const Trial& recorded,
                             const methods::Suggestion& suggestion) const {
    return recorded.candidate == suggestion.candidate &&
           (CandidateLabel(recorded) == LabelOf(suggestion) ||
            FindCandidate(recorded, in_.space) == suggestion.candidate);
  }

  void Count(const Trial& trial) {
    ++summary_.trials;
    measured_ += trial.chosen_by == trials::ChosenBy::kImported ? 0 : 1;
    summary_.elapsed_s = trial.elapsed_s;
    incumbent_.Add(trial);
    summary_.incumbent_steps_per_s = incumbent_.steps_per_s();
  }

  // Adds a trial to the search and to the method's history.
  void Take(const Trial& trial) {
    Count(trial);
    clock_.Measure([&] { in_.method.Observe(trial); });
  }

  // Adds a trial that the method did not suggest.
  void Adopt(const Trial& recorded) {
    Count(recorded);
    in_.journal.SkipFits(recorded.number);
    const std::optional<Trial> trial = TrialIn(in_.space, recorded);
    if (trial &&
        !history().HasTried(trial->candidate, CandidateLabel(*trial))) {
      clock_.Measure([&] { in_.method.Observe(*trial); });
    }
  }

  void Replay(const Trial& recorded) {
    const std::optional<methods::Suggestion> suggestion = Suggest();
    const int number = summary_.trials + 1;
    const bool exists = suggestion && suggestion->IsIn(in_.space);
    Trial trial = recorded;
    trial.throughput = trials::EstimateThroughput(
        trial.measurement.step_times_s, history().throughput_options());
    if (!exists || recorded.number != number ||
        !Matches(recorded, *suggestion) || ToRow(trial) != ToRow(recorded) ||
        !in_.journal.CheckFits(FitRecords(number, *suggestion))) {
      throw common::InputError(fmt::format(
          "trial {} is recorded as {} with {} steps/s, but this program gives "
          "{} with {}: the records are of another version; use another "
          "--results folder, or that version of oppa",
          recorded.number, CandidateLabel(recorded),
          recorded.throughput.steps_per_s,
          exists ? LabelOf(*suggestion) : "nothing",
          trial.throughput.steps_per_s));
    }
    trial.config = suggestion->In(in_.space).config();
    Take(trial);
    (void)clock_.Take(number);  // it is recorded already
  }

  // Where the budget ends the search, one more suggestion gives the estimate
  // after the last trial, if there were estimates before.
  bool Finish(FinishReason reason) {
    summary_.finish_reason = reason;
    const bool budget = reason == FinishReason::kTimeBudget ||
                        reason == FinishReason::kTrialBudget;
    if (budget && estimates_ && !history().exhausted()) {
      const std::optional<methods::Suggestion> next = Suggest();
      summary_.remaining = next ? next->remaining : std::nullopt;
    }
    return false;
  }

  // Runs one new trial; false when the search has ended.
  bool Step() {
    if (OutOfTime()) {
      return Finish(FinishReason::kTimeBudget);
    }
    if (in_.budget.trials > 0 && measured_ >= in_.budget.trials) {
      return Finish(FinishReason::kTrialBudget);
    }
    if (history().size() >= in_.space.size()) {
      return Finish(FinishReason::kSpaceExhausted);
    }
    if (in_.stop && in_.stop()) {
      return false;
    }
    std::optional<methods::Suggestion> suggestion =
        in_.next && NextStart() == nullptr ? in_.next() : std::nullopt;
    if (!suggestion) {
      suggestion = Suggest();
    }
    if (!suggestion) {
      return Finish(FinishReason::kMethodDone);
    }
    if (suggestion->remaining && ShouldStop(*suggestion->remaining)) {
      summary_.remaining = suggestion->remaining;
      return Finish(FinishReason::kStopCondition);
    }
    Check(*suggestion);
    const trials::SuggestionTime time = clock_.Take(summary_.trials + 1);
    if (in_.budget.charge_thinking) {
      summary_.elapsed_s += time.wall_s;
      if (OutOfTime()) {
        return Finish(FinishReason::kTimeBudget);
      }
    }
    try {
      const Trial trial = Try(*suggestion);
      in_.journal.Commit(trial, time, FitRecords(trial.number, *suggestion));
      Take(trial);
      return true;
    } catch (const trials::TrialInterrupted& e) {
      summary_.stop_reason = e.what();
      return false;
    }
  }

  // The best value is a mean of noisy steps, and the highest of many, so it may
  // be above the truth. With its standard error s relative to it,
  // E[(X + Y)^+] <= E[X^+] + E[Y^+] of the gain X and the error Y ~ N(0, s)
  // bounds the expected gain over the true value: s / sqrt(2 pi) more, which is
  // 0 without noise.
  [[nodiscard]] bool ShouldStop(trials::Remaining remaining) const {
    const double steps = std::max(in_.budget.q_max - 1, 1);  // but the warm-up
    if (const double noise = history().StepNoise(); noise > 0.0) {
      remaining.expected_gain += common::NormalDensity(0.0) * noise /
                                 (history().best_value() * std::sqrt(steps));
    }
    return in_.budget.stop_when && in_.budget.stop_when->IsMet(remaining);
  }

  void Check(const methods::Suggestion& suggestion) const {
    if (!suggestion.IsIn(in_.space)) {
      throw std::logic_error(
          fmt::format("the method suggests candidate {} of {}",
                      suggestion.candidate, in_.space.size()));
    }
    if (IsTried(suggestion)) {
      throw std::logic_error(
          fmt::format("the method suggests {} again, which was tried before",
                      LabelOf(suggestion)));
    }
  }

  [[nodiscard]] Trial Try(const methods::Suggestion& suggestion) {
    trials::TrialRequest request;
    request.candidate = suggestion.In(in_.space);
    request.max_steps = in_.budget.q_max;
    request.seed = common::DeriveSeed(LabelOf(suggestion), in_.trial_seed);
    request.time_limit_s = Left();
    request.interrupted = in_.stop;
    StopBy(suggestion.stop, request);
    Trial trial =
        MakeTrial(suggestion.candidate, request.candidate,
                  in_.runner.Run(request), history().throughput_options());
    trial.custom = CustomValues(trial.config, in_.space.knobs());
    trials::Measurement& measurement = trial.measurement;
    if (measurement.duration_s > Left() * (1.0 + kBudgetSlack)) {
      measurement.outcome = Outcome::kTimedOut;  // ended after the search did
    }
    trial.number = summary_.trials + 1;
    trial.elapsed_s =
        std::fmin(summary_.elapsed_s + measurement.duration_s,
                  std::fmax(in_.budget.time_s, summary_.elapsed_s));
    Incumbent incumbent = incumbent_;
    incumbent.Add(trial);
    trial.incumbent_steps_per_s = incumbent.steps_per_s();
    trial.exact_steps_per_s = in_.runner.ExactThroughput(request.candidate)
                                  .value_or(trials::kUnknown);
    trial.chosen_by = suggestion.chosen_by;
    return trial;
  }

  const SearchInput& in_;
  std::size_t next_start_ = 0;
  Incumbent incumbent_;
  int measured_ = 0;  // trials that were not imported
  SuggestionClock clock_;
  bool estimates_ = false;  // a suggestion came with an estimate
  SearchSummary summary_;
};

}  // namespace

SearchSummary Search(const SearchInput& input) { return Loop(input).Run(); }

void Incumbent::Add(const Trial& trial) {
  const double value = trial.throughput.steps_per_s / WeightOf(trial, weight_);
  if (trial.measurement.outcome == Outcome::kCompleted && !std::isnan(value) &&
      !(value <= value_)) {
    value_ = value;
    steps_per_s_ = trial.throughput.steps_per_s;
  }
}

}  // namespace harness
