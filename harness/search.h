// The loop of one run: suggest, try, observe, until the budget is spent.

#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "harness/clock.h"
#include "harness/manifest/manifest.h"
#include "harness/records/journal.h"
#include "methods/method.h"
#include "trials/search_space.h"
#include "trials/trial.h"

namespace harness {

struct SearchSummary {
  int trials = 0;
  int replayed = 0;  // those found in the journal
  double elapsed_s = 0.0;
  double incumbent_steps_per_s = trials::kUnknown;
  // kUnfinished: it was stopped before its end; a reason is optional.
  trials::FinishReason finish_reason = trials::FinishReason::kUnfinished;
  std::string stop_reason;
  // After the last trial of a finished search, by methods that estimate it.
  std::optional<trials::Remaining> remaining = std::nullopt;
};

// A search: a method on a space, with what bounds and records it.
struct SearchInput {
  const trials::SearchSpace& space;
  Budget budget;
  // The seed of a trial is derived from it and the candidate.
  std::uint64_t trial_seed = 0;
  methods::Method& method;
  Clock& clock;  // runs the trials
  // Its trials are replayed first: the method receives the recorded results and
  // must suggest what is recorded.
  Journal& journal;
  // Polled before every new trial, and by testbeds on a real clock during a
  // trial, there from several threads where several trials are in flight; when
  // it returns true the search stops, to be resumed later.
  std::function<bool()> stop = {};
  // What is tried before the method is called: the starts, then what the user
  // wants. With one trial in flight, it may grow while the search runs. Null:
  // empty.
  std::deque<methods::Suggestion>* queue = nullptr;
  // The first trials of the journal that ran with other input: the method
  // observes those that are candidates or plans, as it does imported ones, and
  // need not suggest them. Imported trials do not count for the budget.
  int adopted = 0;
  // Told of each trial on record, in their order: those of the journal, then
  // each when it is committed. Empty: nobody.
  std::function<void(const trials::Trial&)> on_record = {};
  // The variance between runs of one candidate (History::set_run_variance) as
  // it is known before a suggestion. Empty: 0.
  std::function<double()> run_variance = {};
};

// Runs one search. Its time advances by the duration of each trial (and by the
// suggestion times, if the budget charges them). The time limit of a trial is
// the remaining budget, so the search never exceeds it: a trial that is cut off
// has timed out and is never the incumbent. A budget with `stop_when` ends the
// search as soon as a suggestion comes with an estimate that meets it, with the
// noise of the best trial added to its gain; that suggestion is not tried.
//
// With Budget::in_flight = k > 1, up to k trials run, and the time is that of
// the latest end of a trial. Suggestions are made at the start and whenever a
// trial ends, with the trials that run as part of the history (Method::Start).
// Where the method has none, or an estimate meets `stop_when`, it is called
// again when the next trial ends, until none runs. So the order in which trials
// end, which is that of the journal, together with Trial::suggestion gives the
// order of all calls, and a resumed search repeats them; it runs the trials
// again that were in flight. A method ends a trial early by what it observed
// before its start.
//
// The incumbent has the highest value (History::ValueOf, by the method's own
// options) among trials that ran all q_max steps.
//
// Source: OPPA Algorithm 3.
// Errors: throws InputError when the journal does not match the method, as
// after a change of its version; std::logic_error when the method suggests a
// candidate that does not exist or was tried before.
[[nodiscard]] SearchSummary Search(const SearchInput& input);

// Relative to the budget: a remaining time budget below this is rounding error.
inline constexpr double kBudgetSlack = 1e-9;

}  // namespace harness
