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
#include "harness/incumbent.h"
#include "harness/trial_threads.h"

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

  trials::SuggestionTime Take() { return std::exchange(spent_, {}); }

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

// A suggestion whose trial has not ended.
struct Running {
  int place = 0;  // in the order of suggestions
  methods::Suggestion suggestion;
  trials::SuggestionTime suggestion_time;
  double start_s = 0.0;  // search time
  bool begun = false;    // false while the trials on record are replayed
  // On a virtual clock, from its begin on.
  trials::Measurement measurement = {};

  [[nodiscard]] double end_s() const {
    return start_s + measurement.duration_s;
  }
};

class Loop {
 public:
  explicit Loop(const SearchInput& input)
      : in_(input), incumbent_(input.method.history().weight()) {
    summary_.replayed = static_cast<int>(in_.journal.committed().size());
    for (const Trial& trial : in_.journal.committed()) {
      if (!IsAdopted(trial)) {
        last_on_record_ = std::max(last_on_record_, PlaceOf(trial));
      }
    }
    executor_ = in_.executor;
    if (in_.real_clock && in_.budget.in_flight > 1 && !executor_) {
      TrialThreads& threads = threads_.emplace(in_.runner);
      executor_ = {[&threads](int place, trials::TrialRequest request) {
                     threads.Begin(place, std::move(request));
                   },
                   [&threads] { return threads.Next(); }};
    }
  }

  SearchSummary Run() {
    try {
      do {
        AdoptRecorded();
        while (!stopped_ && InFlight() < in_.budget.in_flight && Start()) {
        }
      } while (!stopped_ && EndOne());
    } catch (const trials::TrialInterrupted& e) {
      summary_.stop_reason = e.what();
    }
    return summary_;
  }

 private:
  // The next trial of the journal to be replayed; nullptr after the last.
  [[nodiscard]] const Trial* Recorded() const {
    const std::vector<Trial>& committed = in_.journal.committed();
    return std::cmp_less(summary_.trials, committed.size())
               ? &committed[summary_.trials]
               : nullptr;
  }

  [[nodiscard]] static int PlaceOf(const Trial& recorded) {
    return recorded.suggestion.value_or(recorded.number);
  }

  // The method need not suggest it.
  [[nodiscard]] bool IsAdopted(const Trial& recorded) const {
    return recorded.number <= in_.adopted ||
           recorded.chosen_by == trials::ChosenBy::kImported;
  }

  void AdoptRecorded() {
    for (const Trial* trial = Recorded();
         trial != nullptr &&
         (IsAdopted(*trial) || (trial->chosen_by == trials::ChosenBy::kGiven &&
                                running_.empty() && NextStart() == nullptr));
         trial = Recorded()) {  // the last is of SearchInput::next
      Adopt(*trial);
    }
  }

  [[nodiscard]] int InFlight() const {
    return static_cast<int>(running_.size());
  }

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

  // The running trial with that place among the suggestions is recorded next.
  void Replay(const Trial& recorded) {
    const auto running =
        std::ranges::find(running_, PlaceOf(recorded), &Running::place);
    const bool exists = running != running_.end();
    Trial trial = recorded;
    trial.throughput = trials::EstimateThroughput(
        trial.measurement.step_times_s, history().throughput_options());
    if (!exists || !Matches(recorded, running->suggestion) ||
        ToRow(trial) != ToRow(recorded) ||
        !in_.journal.CheckFits(
            FitRecords(recorded.number, running->suggestion))) {
      throw common::InputError(fmt::format(
          "trial {} is recorded as {} with {} steps/s, but this program gives "
          "{} with {}: the records are of another version; use another "
          "--results folder, or that version of oppa",
          recorded.number, CandidateLabel(recorded),
          recorded.throughput.steps_per_s,
          exists ? LabelOf(running->suggestion) : "nothing",
          trial.throughput.steps_per_s));
    }
    trial.config = running->suggestion.In(in_.space).config();
    running_.erase(running);
    Take(trial);
  }

  // Ends the search where nothing runs. Where the budget ends it, one more
  // suggestion gives the estimate after the last trial, if there were estimates
  // before. Returns false.
  bool Finish(FinishReason reason) {
    if (!running_.empty()) {
      return false;
    }
    summary_.finish_reason = reason;
    const bool budget = reason == FinishReason::kTimeBudget ||
                        reason == FinishReason::kTrialBudget;
    if (budget && estimates_ && !history().exhausted()) {
      const std::optional<methods::Suggestion> next = Suggest();
      summary_.remaining = next ? next->remaining : std::nullopt;
    }
    return false;
  }

  [[nodiscard]] std::optional<FinishReason> Limit() const {
    if (OutOfTime()) {
      return FinishReason::kTimeBudget;
    }
    if (in_.budget.trials > 0 && measured_ + InFlight() >= in_.budget.trials) {
      return FinishReason::kTrialBudget;
    }
    if (history().turn() >= in_.space.size()) {
      return FinishReason::kSpaceExhausted;
    }
    return std::nullopt;
  }

  // Starts one more trial; false where there is none to start now. What was
  // started before a later trial on record does not depend on today's limits.
  bool Start() {
    const int place = summary_.trials + InFlight() + 1;
    const bool replays = place <= last_on_record_;
    if (const auto limit = replays ? std::nullopt : Limit()) {
      return Finish(*limit);
    }
    if (!replays && in_.stop && in_.stop()) {
      stopped_ = true;
      return false;
    }
    std::optional<methods::Suggestion> suggestion =
        !replays && in_.next && NextStart() == nullptr ? in_.next()
                                                       : std::nullopt;
    if (!suggestion) {
      suggestion = Suggest();
    }
    if (!suggestion) {
      return Finish(FinishReason::kMethodDone);
    }
    if (replays && (!suggestion->IsIn(in_.space) || IsTried(*suggestion))) {
      return false;  // Replay does not find it
    }
    if (!replays && suggestion->remaining && in_.budget.stop_when &&
        in_.budget.stop_when->IsMet(*suggestion->remaining)) {
      if (running_.empty()) {
        summary_.remaining = suggestion->remaining;
      }
      return Finish(FinishReason::kStopCondition);
    }
    Check(*suggestion);
    const trials::SuggestionTime time = clock_.Take();
    if (in_.budget.charge_thinking && Recorded() == nullptr) {
      summary_.elapsed_s += time.wall_s;
      if (OutOfTime()) {
        return Finish(FinishReason::kTimeBudget);
      }
    }
    in_.method.Start(*suggestion);
    running_.push_back(
        {place, *std::move(suggestion), time, summary_.elapsed_s});
    BeginAll();
    return true;
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

  // Runs what was started, but for trials on record.
  void BeginAll() {
    for (Running& running : running_) {
      if (!running.begun && Recorded() == nullptr) {
        running.begun = true;
        Begin(running);
      }
    }
  }

  void Begin(Running& running) {
    if (in_.real_clock) {
      running.start_s = summary_.elapsed_s;
    }
    trials::TrialRequest request;
    request.candidate = running.suggestion.In(in_.space);
    request.max_steps = in_.budget.q_max;
    request.seed =
        common::DeriveSeed(LabelOf(running.suggestion), in_.trial_seed);
    request.time_limit_s = in_.budget.time_s - running.start_s;
    request.interrupted = in_.stop;
    StopBy(running.suggestion.stop, request);
    if (executor_) {
      executor_->begin(running.place, std::move(request));
    } else {
      running.measurement = in_.runner.Run(request);
    }
  }

  // Takes the next trial that ends, of equals the one that was suggested first;
  // false where none runs.
  bool EndOne() {
    if (const Trial* recorded = Recorded()) {
      Replay(*recorded);
      return true;
    }
    if (running_.empty()) {
      return false;
    }
    BeginAll();
    auto ended = std::ranges::min_element(running_, {}, &Running::end_s);
    if (executor_) {
      auto [place, measurement] = executor_->next();
      ended = std::ranges::find(running_, place, &Running::place);
      ended->measurement = std::move(measurement);
    }
    const Running running = std::move(*ended);
    running_.erase(ended);
    const Trial trial = TrialOf(running);
    trials::SuggestionTime time = running.suggestion_time;
    time.trial = trial.number;
    in_.journal.Commit(trial, time,
                       FitRecords(trial.number, running.suggestion));
    Take(trial);
    return true;
  }

  [[nodiscard]] Trial TrialOf(const Running& running) const {
    const methods::Suggestion& suggestion = running.suggestion;
    const trials::Candidate candidate = suggestion.In(in_.space);
    Trial trial =
        MakeTrial(suggestion.candidate, candidate, running.measurement,
                  history().throughput_options());
    trial.custom = CustomValues(trial.config, in_.space.knobs());
    if (trial.measurement.duration_s >
        (in_.budget.time_s - running.start_s) * (1.0 + kBudgetSlack)) {
      // It ended after the search did.
      trial.measurement.outcome = Outcome::kTimedOut;
    }
    trial.number = summary_.trials + 1;
    if (in_.budget.in_flight > 1) {
      trial.suggestion = running.place;
    }
    // On a real clock, the waiting time of other trials does not count.
    trial.elapsed_s =
        std::fmax(summary_.elapsed_s,
                  std::fmin(running.end_s(),
                            std::fmax(in_.budget.time_s, running.start_s)));
    Incumbent incumbent = incumbent_;
    incumbent.Add(trial);
    trial.incumbent_steps_per_s = incumbent.steps_per_s();
    trial.exact_steps_per_s =
        in_.runner.ExactThroughput(candidate).value_or(trials::kUnknown);
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
  std::vector<Running> running_;  // in the order of suggestions
  int last_on_record_ = 0;        // the last place of the trials on record
  bool stopped_ = false;
  std::optional<TrialThreads> threads_;
  std::optional<TrialExecutor> executor_;  // on a real clock
};

}  // namespace

SearchSummary Search(const SearchInput& input) { return Loop(input).Run(); }

}  // namespace harness
