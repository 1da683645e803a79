#include "harness/search.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "common/clock.h"
#include "common/hash.h"
#include "harness/incumbent.h"
#include "harness/replay.h"

namespace harness {
namespace {

using trials::FinishReason;
using trials::Outcome;
using trials::Trial;

// A suggestion whose trial has not ended.
struct Running {
  int place = 0;  // in the order of suggestions
  methods::Suggestion suggestion;
  trials::SuggestionTime suggestion_time;
  double start_s = 0.0;  // search time
  bool begun = false;    // false while the trials on record are replayed
};

// The steps of a search: adopt, start until enough trials run, end one.
class Loop {
 public:
  explicit Loop(const SearchInput& input)
      : in_(input),
        replay_(input.space, input.method.history(), input.journal,
                input.adopted),
        incumbent_(input.method.history().weight()) {
    summary_.replayed = static_cast<int>(in_.journal.committed().size());
  }

  SearchSummary Run() {
    try {
      do {
        AdoptRecorded();
        while (InFlight() < in_.budget.in_flight && Start()) {
        }
      } while (!stopped_ && EndOne());
    } catch (const trials::TrialInterrupted& e) {
      summary_.stop_reason = e.what();
    }
    return summary_;
  }

 private:
  void AdoptRecorded() {
    while (replay_.IsAdopted(running_.empty() && NextInQueue() == nullptr)) {
      Count(*replay_.Next());
      if (const std::optional<Trial> trial = replay_.Adopt()) {
        Measure([&] { in_.method.Observe(*trial); });
      }
    }
  }

  // Starts one more trial; false where there is none to start now.
  bool Start() {
    const int place = summary_.trials + InFlight() + 1;
    const bool replays = replay_.Covers(place);
    if (!replays && !MayStart()) {
      return false;
    }
    const methods::Suggestion* queued = NextInQueue();
    std::optional<methods::Suggestion> suggestion =
        queued != nullptr ? *queued : Suggest();
    if (!suggestion) {
      return Finish(FinishReason::kMethodDone);
    }
    if (replays ? !IsNew(*suggestion) : Suffices(*suggestion)) {
      return false;  // a replay does not find it
    }
    Check(*suggestion);
    const trials::SuggestionTime time = std::exchange(thinking_, {});
    if (!Charge(time)) {
      return Finish(FinishReason::kTimeBudget);
    }
    in_.method.Start(*suggestion);
    running_.push_back(
        {place, *std::move(suggestion), time, summary_.elapsed_s});
    BeginAll();
    return true;
  }

  // Takes the next trial that ends; false where none runs.
  bool EndOne() {
    if (replay_.Next() != nullptr) {
      const std::optional<Running> running = Remove(replay_.place());
      Take(replay_.Confirm(running ? &running->suggestion : nullptr));
      return true;
    }
    if (running_.empty()) {
      return false;
    }
    BeginAll();
    const auto [place, measurement] = in_.clock.EndNext();
    const Running running = *Remove(place);
    const Trial trial = TrialOf(running, measurement);
    trials::SuggestionTime time = running.suggestion_time;
    time.trial = trial.number;
    in_.journal.Commit(trial, time,
                       FitRecords(trial.number, running.suggestion));
    Take(trial);
    return true;
  }

  // Takes the running trial with that place.
  std::optional<Running> Remove(int place) {
    const auto found = std::ranges::find(running_, place, &Running::place);
    if (found == running_.end()) {
      return std::nullopt;
    }
    std::optional<Running> running = std::move(*found);
    running_.erase(found);
    return running;
  }

  [[nodiscard]] int InFlight() const {
    return static_cast<int>(running_.size());
  }

  [[nodiscard]] bool OutOfTime() const {
    const double left_s = in_.budget.time_s - summary_.elapsed_s;
    return std::isfinite(in_.budget.time_s) &&
           left_s <= kBudgetSlack * in_.budget.time_s;
  }

  [[nodiscard]] const methods::History& history() const {
    return in_.method.history();
  }

  [[nodiscard]] bool IsTried(const methods::Suggestion& suggestion) const {
    return history().HasTried(suggestion.candidate,
                              suggestion.LabelIn(in_.space));
  }

  [[nodiscard]] bool IsNew(const methods::Suggestion& suggestion) const {
    return suggestion.IsIn(in_.space) && !IsTried(suggestion);
  }

  // The next in the queue that was not tried; nullptr after the last.
  const methods::Suggestion* NextInQueue() {
    while (in_.queue != nullptr && !in_.queue->empty()) {
      if (!IsTried(in_.queue->front())) {
        return &in_.queue->front();
      }
      in_.queue->pop_front();
    }
    return nullptr;
  }

  std::optional<methods::Suggestion> Suggest() {
    std::optional<methods::Suggestion> suggestion;
    if (in_.run_variance) {
      in_.method.SetRunVariance(in_.run_variance());
    }
    Measure([&] { suggestion = in_.method.Suggest(); });
    estimates_ = estimates_ || (suggestion && suggestion->remaining);
    return suggestion;
  }

  // Adds the time of a call of the method to that of the next suggestion.
  template <typename Call>
  void Measure(Call call) {
    const double wall_s = common::SteadySeconds();
    const double cpu_s = common::CpuSeconds();
    call();
    thinking_.wall_s += common::SteadySeconds() - wall_s;
    thinking_.cpu_s += common::CpuSeconds() - cpu_s;
  }

  void Count(const Trial& trial) {
    ++summary_.trials;
    measured_ += trial.chosen_by == trials::ChosenBy::kImported ? 0 : 1;
    summary_.elapsed_s = trial.elapsed_s;
    incumbent_.Add(trial);
    summary_.incumbent_steps_per_s = incumbent_.steps_per_s();
    if (in_.on_record) {
      in_.on_record(trial);
    }
  }

  // Adds a trial to the search and to the method's history.
  void Take(const Trial& trial) {
    Count(trial);
    Measure([&] { in_.method.Observe(trial); });
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

  // Whether the limits of today let one more trial start.
  bool MayStart() {
    if (OutOfTime()) {
      return Finish(FinishReason::kTimeBudget);
    }
    if (in_.budget.trials > 0 && measured_ + InFlight() >= in_.budget.trials) {
      return Finish(FinishReason::kTrialBudget);
    }
    if (history().turn() >= in_.space.size()) {
      return Finish(FinishReason::kSpaceExhausted);
    }
    stopped_ = in_.stop && in_.stop();
    return !stopped_;
  }

  // Whether the estimate with a suggestion ends the search.
  bool Suffices(const methods::Suggestion& suggestion) {
    if (!suggestion.remaining || !in_.budget.stop_when ||
        !in_.budget.stop_when->IsMet(*suggestion.remaining)) {
      return false;
    }
    if (running_.empty()) {
      summary_.remaining = suggestion.remaining;
    }
    return !Finish(FinishReason::kStopCondition);
  }

  // Counts the time of a suggestion; false if it was the rest.
  bool Charge(const trials::SuggestionTime& time) {
    if (!in_.budget.charge_thinking || replay_.Next() != nullptr) {
      return true;
    }
    summary_.elapsed_s += time.wall_s;
    return !OutOfTime();
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
                      suggestion.LabelIn(in_.space)));
    }
  }

  // Begins what was started, once no trial on record is left.
  void BeginAll() {
    for (Running& running : running_) {
      if (!running.begun && replay_.Next() == nullptr) {
        running.begun = true;
        Begin(running);
      }
    }
  }

  void Begin(Running& running) {
    running.start_s = in_.clock.StartOf(running.start_s, summary_.elapsed_s);
    trials::TrialRequest request;
    request.candidate = running.suggestion.In(in_.space);
    request.max_steps = in_.budget.q_max;
    request.seed = common::DeriveSeed(running.suggestion.LabelIn(in_.space),
                                      in_.trial_seed);
    request.time_limit_s = in_.budget.time_s - running.start_s;
    request.remaining = running.suggestion.remaining;
    request.interrupted = in_.stop;
    StopBy(running.suggestion.stop, request);
    in_.clock.Begin(running.place, running.start_s, std::move(request));
  }

  [[nodiscard]] Trial TrialOf(const Running& running,
                              const trials::Measurement& measurement) const {
    const methods::Suggestion& suggestion = running.suggestion;
    const trials::Candidate candidate = suggestion.In(in_.space);
    Trial trial = MakeTrial(suggestion.candidate, candidate, measurement,
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
                  std::fmin(running.start_s + measurement.duration_s,
                            std::fmax(in_.budget.time_s, running.start_s)));
    Incumbent incumbent = incumbent_;
    incumbent.Add(trial);
    trial.incumbent_steps_per_s = incumbent.steps_per_s();
    trial.exact_steps_per_s =
        in_.clock.runner().ExactThroughput(candidate).value_or(
            trials::kUnknown);
    trial.chosen_by = suggestion.chosen_by;
    return trial;
  }

  const SearchInput& in_;
  Replay replay_;
  Incumbent incumbent_;
  int measured_ = 0;                 // trials that were not imported
  trials::SuggestionTime thinking_;  // since the last suggestion
  bool estimates_ = false;           // a suggestion came with an estimate
  SearchSummary summary_;
  std::vector<Running> running_;  // in the order of suggestions
  bool stopped_ = false;
};

}  // namespace

SearchSummary Search(const SearchInput& input) { return Loop(input).Run(); }

}  // namespace harness
