// The loop of one run: suggest, try, observe, until the budget is spent.

#ifndef HARNESS_SEARCH_H_
#define HARNESS_SEARCH_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include "common/error.h"
#include "harness/journal.h"
#include "harness/manifest.h"
#include "methods/method.h"
#include "trials/search_space.h"
#include "trials/trial_runner.h"

namespace harness {

struct SearchSummary {
  int trials = 0;
  int replayed = 0;  // of them, found in the journal
  double elapsed_s = 0.0;
  double incumbent_steps_per_s = trials::kUnknown;
  std::string finish_reason;  // see trials::RunInfo
  bool stopped = false;       // before its end; finish_reason may say why
};

// Runs one search on a virtual clock. The clock advances by what each trial
// cost (and by the method's thinking, if the budget charges it); a trial's
// time limit is what is left of the budget, so the budget is never passed: a
// trial that it cuts is timed_out and never the incumbent. The incumbent is
// the best throughput (Eq. 28) among trials that ran all q_max steps.
//
// What the journal holds is replayed first: the method is asked and shown the
// recorded results, and must ask for what is recorded.
//
// `stop` is asked before every new trial, and by backends on a real clock
// during a trial; when it says true the search ends there, to be resumed
// another time.
//
// The seed of a trial is derived from `trial_seed` and the configuration.
//
// Source: OPPA Algorithm 3.
// Errors: throws InputError when the journal does not fit the method, which
// then is of another version; std::logic_error when the method suggests a
// candidate that does not exist or was tried before.
[[nodiscard]] SearchSummary Search(const trials::SearchSpace& space,
                                   const Budget& budget,
                                   std::uint64_t trial_seed,
                                   methods::Method& method,
                                   trials::TrialRunner& runner,
                                   Journal& journal,
                                   const std::function<bool()>& stop = {});

}  // namespace harness

#endif  // HARNESS_SEARCH_H_
