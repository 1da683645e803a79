#include "harness/search.h"

#include <cmath>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/hash.h"

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
  Loop(const trials::SearchSpace& space, const Budget& budget,
       std::uint64_t trial_seed, methods::Method& method,
       trials::TrialRunner& runner, Journal& journal,
       const std::function<bool()>& stop,
       const std::vector<methods::Suggestion>& starts, int adopted,
       const trials::RelativePrice& price)
      : space_(space),
        budget_(budget),
        trial_seed_(trial_seed),
        method_(method),
        runner_(runner),
        journal_(journal),
        stop_(stop),
        starts_(starts),
        adopted_(adopted),
        price_(price),
        incumbent_(price) {}

  SearchSummary Run() {
    for (const Trial& trial : journal_.committed()) {
      if (trial.number <= adopted_ ||
          trial.chosen_by == trials::ChosenBy::kImported) {
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
    return budget_.time_s - summary_.elapsed_s;
  }

  [[nodiscard]] bool OutOfTime() const {
    return std::isfinite(budget_.time_s) &&
           Left() <= kBudgetSlack * budget_.time_s;
  }

  std::optional<methods::Suggestion> Suggest() {
    while (next_start_ < starts_.size()) {
      const methods::Suggestion& start = starts_[next_start_++];
      if (!IsTried(start)) {
        return start;
      }
    }
    auto suggestion = clock_.Measure([this] { return method_.Suggest(); });
    estimates_ = estimates_ || (suggestion && suggestion->remaining);
    return suggestion;
  }

  [[nodiscard]] bool IsTried(const methods::Suggestion& suggestion) const {
    const methods::History& history = method_.history();
    return suggestion.plan ? history.HasTried(ToString(*suggestion.plan))
                           : history.tried()[suggestion.candidate] != 0;
  }

  [[nodiscard]] bool Exists(const methods::Suggestion& suggestion) const {
    return suggestion.plan ||
           (suggestion.candidate >= 0 && suggestion.candidate < space_.size());
  }

  [[nodiscard]] trials::ParallelConfig ConfigOf(
      const methods::Suggestion& suggestion) const {
    return suggestion.plan ? StageConfig(*suggestion.plan, 0)
                           : space_[suggestion.candidate];
  }

  [[nodiscard]] std::string LabelOf(
      const methods::Suggestion& suggestion) const {
    return suggestion.plan
               ? ToString(*suggestion.plan)
               : ToString(space_[suggestion.candidate], space_.knobs());
  }

  // The recorded trial is that of the suggestion.
  [[nodiscard]] bool Matches(const Trial& recorded,
                             const methods::Suggestion& suggestion) const {
    if (recorded.candidate != suggestion.candidate) {
      return false;
    }
    if (suggestion.plan) {
      return recorded.plan == ToString(*suggestion.plan);
    }
    return recorded.custom.empty()
               ? CandidateLabel(recorded) == LabelOf(suggestion)
               : FindCandidate(recorded, space_) == suggestion.candidate;
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
    observed_ += trial.plan.empty() ? 1 : 0;
    clock_.Measure([&] { Observe(trial); });
  }

  // The method sees the value in the place of the throughput.
  void Observe(Trial trial) {
    const double price = PriceOf(trial, price_);
    trial.throughput.steps_per_s /= price;
    trial.throughput.variance /= price * price;
    method_.Observe(trial);
  }

  // The rule for throughputs of a rule for values.
  [[nodiscard]] std::optional<trials::StopRule> RuleFor(
      const methods::Suggestion& suggestion) const {
    std::optional<trials::StopRule> rule = suggestion.stop;
    if (rule && !suggestion.plan) {
      const double price = price_(space_[suggestion.candidate]);
      rule->best_steps_per_s *= price;
      rule->tau_steps_per_s *= price;
      rule->confidence_steps_per_s *= price;
    }
    return rule;
  }

  // Adds a trial that the method did not suggest.
  void Adopt(const Trial& recorded) {
    Count(recorded);
    journal_.SkipFits(recorded.number);
    if (!recorded.plan.empty()) {
      if (!method_.history().HasTried(recorded.plan)) {
        Observe(recorded);
      }
      return;
    }
    const std::optional<int> candidate = FindCandidate(recorded, space_);
    if (!candidate || IsTried({.candidate = *candidate})) {
      return;
    }
    Trial trial = recorded;
    trial.candidate = *candidate;
    trial.config = space_[*candidate];
    ++observed_;
    Observe(std::move(trial));
  }

  void Replay(const Trial& recorded) {
    const std::optional<methods::Suggestion> suggestion = Suggest();
    const int number = summary_.trials + 1;
    const bool exists = suggestion && Exists(*suggestion);
    Trial trial = recorded;
    trial.throughput = trials::EstimateThroughput(
        trial.measurement.step_times_s, method_.history().throughput_options());
    if (!exists || recorded.number != number ||
        !Matches(recorded, *suggestion) || ToRow(trial) != ToRow(recorded) ||
        !journal_.CheckFits(FitRecords(number, *suggestion))) {
      throw common::InputError(fmt::format(
          "trial {} is recorded as {} with {} steps/s, but this program gives "
          "{} with {}: the records are of another version; use another "
          "--results folder, or that version of oppa",
          recorded.number, CandidateLabel(recorded),
          recorded.throughput.steps_per_s,
          exists ? LabelOf(*suggestion) : "nothing",
          trial.throughput.steps_per_s));
    }
    trial.config = ConfigOf(*suggestion);
    Take(trial);
    (void)clock_.Take(number);  // it is recorded already
  }

  // Where the budget ends the search, one more suggestion gives the estimate
  // after the last trial, if there were estimates before.
  bool Finish(FinishReason reason) {
    summary_.finish_reason = reason;
    const bool budget = reason == FinishReason::kTimeBudget ||
                        reason == FinishReason::kTrialBudget;
    if (budget && estimates_ && !method_.history().exhausted()) {
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
    if (budget_.trials > 0 && measured_ >= budget_.trials) {
      return Finish(FinishReason::kTrialBudget);
    }
    if (observed_ >= space_.size()) {
      return Finish(FinishReason::kSpaceExhausted);
    }
    if (stop_ && stop_()) {
      return false;
    }
    const std::optional<methods::Suggestion> suggestion = Suggest();
    if (!suggestion) {
      return Finish(FinishReason::kMethodDone);
    }
    if (budget_.stop_when && suggestion->remaining &&
        budget_.stop_when->IsMet(*suggestion->remaining)) {
      summary_.remaining = suggestion->remaining;
      return Finish(FinishReason::kStopCondition);
    }
    Check(*suggestion);
    const trials::SuggestionTime time = clock_.Take(summary_.trials + 1);
    if (budget_.charge_thinking) {
      summary_.elapsed_s += time.wall_s;
      if (OutOfTime()) {
        return Finish(FinishReason::kTimeBudget);
      }
    }
    try {
      const Trial trial = Try(*suggestion);
      journal_.Commit(trial, time, FitRecords(trial.number, *suggestion));
      Take(trial);
      return true;
    } catch (const trials::TrialInterrupted& e) {
      summary_.stop_reason = e.what();
      return false;
    }
  }

  void Check(const methods::Suggestion& suggestion) const {
    if (!Exists(suggestion)) {
      throw std::logic_error(
          fmt::format("the method suggests candidate {} of {}",
                      suggestion.candidate, space_.size()));
    }
    if (IsTried(suggestion)) {
      throw std::logic_error(
          fmt::format("the method suggests {} again, which was tried before",
                      LabelOf(suggestion)));
    }
  }

  [[nodiscard]] Trial Try(const methods::Suggestion& suggestion) {
    trials::TrialRequest request;
    request.config = ConfigOf(suggestion);
    request.plan = suggestion.plan;
    request.max_steps = budget_.q_max;
    request.seed = common::DeriveSeed(LabelOf(suggestion), trial_seed_);
    request.time_limit_s = Left();
    request.interrupted = stop_;
    StopBy(RuleFor(suggestion), request);
    Trial trial =
        MakeTrial(suggestion.candidate, request.config, runner_.Run(request),
                  method_.history().throughput_options());
    trial.plan = suggestion.plan ? ToString(*suggestion.plan) : "";
    trial.custom = CustomValues(request.config, space_.knobs());
    trials::Measurement& measurement = trial.measurement;
    if (measurement.duration_s > Left() * (1.0 + kBudgetSlack)) {
      measurement.outcome = Outcome::kTimedOut;  // ended after the search did
    }
    trial.number = summary_.trials + 1;
    trial.elapsed_s = std::fmin(summary_.elapsed_s + measurement.duration_s,
                                std::fmax(budget_.time_s, summary_.elapsed_s));
    Incumbent incumbent = incumbent_;
    incumbent.Add(trial);
    trial.incumbent_steps_per_s = incumbent.steps_per_s();
    trial.exact_steps_per_s =
        (request.plan ? runner_.ExactPlanThroughput(*request.plan)
                      : runner_.ExactThroughput(request.config))
            .value_or(trials::kUnknown);
    trial.chosen_by = suggestion.chosen_by;
    return trial;
  }

  const trials::SearchSpace& space_;
  const Budget& budget_;
  std::uint64_t trial_seed_;
  methods::Method& method_;
  trials::TrialRunner& runner_;
  Journal& journal_;
  const std::function<bool()>& stop_;
  const std::vector<methods::Suggestion>& starts_;
  std::size_t next_start_ = 0;
  int adopted_;
  trials::RelativePrice price_;
  Incumbent incumbent_;
  int measured_ = 0;  // trials that were not imported
  int observed_ = 0;  // trials of candidates, which plans are not
  SuggestionClock clock_;
  bool estimates_ = false;  // a suggestion came with an estimate
  SearchSummary summary_;
};

}  // namespace

SearchSummary Search(const trials::SearchSpace& space, const Budget& budget,
                     std::uint64_t trial_seed, methods::Method& method,
                     trials::TrialRunner& runner, Journal& journal,
                     const std::function<bool()>& stop,
                     const std::vector<methods::Suggestion>& starts,
                     int adopted, const trials::RelativePrice& price) {
  return Loop(space, budget, trial_seed, method, runner, journal, stop, starts,
              adopted, price)
      .Run();
}

void Incumbent::Add(const Trial& trial) {
  const double value = trial.throughput.steps_per_s / PriceOf(trial, price_);
  if (trial.measurement.outcome == Outcome::kCompleted && !std::isnan(value) &&
      !(value <= value_)) {
    value_ = value;
    steps_per_s_ = trial.throughput.steps_per_s;
  }
}

std::vector<std::string> CustomNames(const trials::SearchSpace& space) {
  std::vector<std::string> names;
  for (const trials::CustomValue& custom :
       CustomValues(trials::ParallelConfig{}, space.knobs())) {
    names.push_back(custom.knob);
  }
  return names;
}

std::optional<int> FindCandidate(const Trial& trial,
                                 const trials::SearchSpace& space) {
  trials::ParallelConfig config = trial.config;
  for (const trials::CustomValue& custom : trial.custom) {
    const trials::Knob* const knob = space.knobs().Find(custom.knob);
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
  return trial.plan.empty() ? space.Find(config) : std::nullopt;
}

}  // namespace harness
