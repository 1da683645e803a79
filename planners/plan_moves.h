// Local moves on the best plans so far.

#pragma once

#include <optional>
#include <vector>

#include "methods/history.h"
#include "methods/method.h"
#include "planners/astra/plan_search.h"
#include "trials/plan.h"

namespace planners {

// The plans that differ from a plan by one move and that trials can run
// (CheckPlan): 1, 2 or 4 layers between neighbouring virtual stages, or for
// each of them between GPU types, and recomputed layers of one stage or of all.
// Where the space has the sizes of the plan, it has those of its moves.
//
// Source: primitives of Liu et al. (2024), Aceso, Table 1, on whole layers.
[[nodiscard]] std::vector<trials::Plan> MovesFrom(
    const trials::Plan& plan, const methods::Problem& problem);

// Suggests the plan, at most three moves away from the best trial or the best
// candidate, with the highest expected improvement times its probability of
// fitting. Surrogates learn from all trials and encode stages; their prior mean
// is Astra's cost model, with the FLOP/s of data sheets. A plan is left out
// where that model expects as much of equal stages.
//
// Source: own; docs/decisions/0022-moves-on-plans.md.
class PlanMoves {
 public:
  // Errors: throws InputError without a workload.
  explicit PlanMoves(const methods::Problem& problem);

  // Instead of a suggestion: nothing before the first throughput, and where the
  // expected improvement is below that of the suggestion or 1% of the best
  // value.
  [[nodiscard]] std::optional<methods::Suggestion> Suggest(
      const methods::History& history, const methods::Suggestion& instead_of);

 private:
  [[nodiscard]] double StepTime(const trials::Plan& plan) {
    return model_.CostOf(plan).step_time_s;
  }
  [[nodiscard]] bool BeatsEqualStages(const trials::Plan& plan);
  // Adds plans a few moves away from the starts.
  void AddNeighbours(std::vector<trials::Plan> starts,
                     std::vector<trials::Plan>& plans);
  // The plans of the trials, in their order, then their neighbours.
  [[nodiscard]] std::vector<trials::Plan> PlansFrom(
      const methods::History& history,
      const std::vector<trials::Trial>& trials);
  [[nodiscard]] trials::Predictions Predict(
      const std::vector<trials::Plan>& plans);

  methods::Problem problem_;
  AstraPlanModel model_;
  double most_memory_share_ = 1.0;  // that fits, as the model predicts it
};

}  // namespace planners
