// The interface of a search method.

#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "methods/history.h"
#include "surrogates/surrogate.h"
#include "trials/candidate.h"
#include "trials/machine.h"
#include "trials/objective.h"
#include "trials/predictions.h"
#include "trials/remaining.h"
#include "trials/search_space.h"
#include "trials/trial.h"
#include "trials/workload.h"

namespace methods {

// The view that a method has of the problem, without a testbed.
struct Problem {
  const trials::SearchSpace* space = nullptr;  // must outlive the method
  trials::Machine machine;
  // Methods maximize values (History::ValueOf). Step times of their own models
  // and of `predict` need `Weighted`.
  trials::Weight weight;
  trials::RankOrder rank_order = trials::RankOrder::kPipelineOutermost;
  // The job, where the manifest describes it; else null. A method that reads it
  // has MethodEntry::reads_workload.
  const trials::Workload* workload = nullptr;
  // Trials can run plans, whose stages differ.
  bool runs_plans = false;
  // The job of a measured table that has no `workload`: null where no facts
  // describe the table. Empty for other problems. The result lives as long as a
  // copy of the function.
  // Errors: throws InputError for facts that are incomplete.
  std::function<const trials::TrainedJob*()> described;
  int q_max = 1;  // steps of a full trial
  // Trials run for real: their first steps may be slower, also after those that
  // are discarded as warm-up.
  bool steps_settle = false;
  // Threads that a suggestion may use, >= 1. The suggestion does not depend on
  // them.
  int threads = 1;
  // Predicts step time and peak memory of every candidate. The argument names a
  // source, a table [predictions.NAME] of the manifest; "" is the table
  // [predictions] itself. On a simulated testbed they describe another machine,
  // so that no method has the ground truth. Empty in tests without a manifest.
  //
  // A method calls it when it is made, so that a missing source is found before
  // an experiment starts, and names its source in PredictionsOf(options).
  // Errors: throws InputError with a remedy if there is no such source.
  std::function<trials::Predictions(const std::string& source)> predict;
};

// The job that the facts of a measured table describe; null where the problem
// has a workload of its own. Lives as long as Problem::described.
// Errors: throws InputError where the facts do not describe one job.
[[nodiscard]] const trials::TrainedJob* DescribedJob(const Problem& problem);
// As DescribedJob, with null for the error, for methods that can do without.
[[nodiscard]] const trials::TrainedJob* JobIfDescribed(const Problem& problem);

// The problem on each of its numbers of GPUs, with the whole space.
[[nodiscard]] inline std::vector<Problem> PartsOf(const Problem& problem) {
  std::vector<Problem> parts;
  for (trials::Machine& machine : problem.machine.Parts()) {
    parts.emplace_back(problem).machine = std::move(machine);
  }
  return parts;
}

// The step time, times its weight: the inverse of the candidate's value.
[[nodiscard]] inline double Weighted(const Problem& problem, int candidate,
                                     double step_time_s) {
  return step_time_s * problem.weight((*problem.space)[candidate]);
}
[[nodiscard]] inline trials::Predictions Weighted(
    const Problem& problem, trials::Predictions predictions) {
  for (std::size_t i = 0; i < predictions.step_time_s.size(); ++i) {
    double& time_s = predictions.step_time_s[i];
    time_s = Weighted(problem, static_cast<int>(i), time_s);
  }
  return predictions;
}

// The next trial, and how it may end early.
struct Suggestion {
  int candidate = -1;  // index into the space, never tried before
  // What to try instead, a plan, with the index -1; only where
  // Problem::runs_plans. Its label was never tried before, and CheckPlan
  // accepts it.
  std::optional<trials::Candidate> outside;
  std::optional<trials::StopRule> stop;  // absent: run all q_max steps
  trials::ChosenBy chosen_by = trials::ChosenBy::kUnspecified;
  // The fits of the surrogates behind this suggestion, by surrogate name.
  struct Fit {
    std::string surrogate;
    surrogates::FitSummary summary;
  };
  std::vector<Fit> fits;
  // How much the search may still gain, before this trial; absent where the
  // method has no estimate.
  std::optional<trials::Remaining> remaining;

  [[nodiscard]] bool IsIn(const trials::SearchSpace& space) const;
  // Precondition: IsIn(space).
  [[nodiscard]] trials::Candidate In(const trials::SearchSpace& space) const;
  [[nodiscard]] std::string LabelIn(const trials::SearchSpace& space) const;
};

// Decides what to try next. A method is a function of its options, its seed
// and its history: it runs no trial, reads no clock and keeps no other state,
// so a run resumes by replaying its journal.
class Method {
 public:
  // `throughput` defines how the method estimates the throughput of a trial.
  explicit Method(const Problem& problem,
                  const trials::ThroughputOptions& throughput = {})
      : history_(problem.space->size(), throughput, problem.weight) {}
  // For a space of this many candidates, each worth its throughput.
  explicit Method(int candidates) : history_(candidates) {}
  virtual ~Method() = default;

  // The next trial. Nothing when the method is done, or, while trials run, when
  // it needs the result of one. Called before each trial except a start
  // (harness/experiment.h), and once more for the estimate at the end of a
  // search.
  [[nodiscard]] virtual std::optional<Suggestion> Suggest() = 0;

  // The trial of a suggestion, or of a start, begins. Needed only where others
  // are suggested before its Observe.
  void Start(const Suggestion& suggestion) {
    history_.Start(suggestion.candidate,
                   suggestion.outside ? suggestion.outside->Label() : "");
  }

  // Adds what the history of another method has and this one lacks.
  void Follow(const History& other) { history_.Follow(other); }

  // Adds the trial of a suggestion, or a start, estimated by the options of the
  // history.
  void Observe(const trials::Trial& trial) { history_.Add(trial); }

  // See History. It changes Suggestion::remaining, and no suggestion.
  void SetRunVariance(double relative) { history_.set_run_variance(relative); }

  // Whether suggestions by a model include Suggestion::remaining.
  [[nodiscard]] virtual bool EstimatesRemaining() const { return false; }

  [[nodiscard]] const History& history() const { return history_; }

 protected:
  History history_;
};

}  // namespace methods
