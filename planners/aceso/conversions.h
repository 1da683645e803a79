// Plans of operators from configurations, and as plans of layers, which trials
// can run.

#pragma once

#include <optional>
#include <vector>

#include "planners/operators/operator_plan.h"
#include "planners/operators/plan_cost.h"
#include "trials/parallel_config.h"
#include "trials/plan.h"

namespace planners {

// The first operator of each layer.
[[nodiscard]] std::vector<int> LayersOf(const OperatorModel& model);

// Stages of equally many layers; if the stages do not divide the layers, some
// have one more. Their sizes are not set yet.
[[nodiscard]] OperatorPlan EqualStages(const OperatorModel& model, int stages);

// Gives every operator these sizes, powers of two. Selective recomputation
// repeats the core of attention.
void SetSizes(const OperatorModel& model, int tp, int dp,
              trials::Recomputation recomputation, OperatorPlan& plan);

// The plan of a configuration, as far as plans have its knobs: dp, tp, pp,
// microbatches and recomputation. Nothing for sizes that are not powers of two,
// microbatches that do not divide the batch, more stages than layers, and
// context parallelism.
[[nodiscard]] std::optional<OperatorPlan> PlanOf(
    const OperatorModel& model, const trials::ParallelConfig& config);

// The plan of layers that is nearest to a plan of operators:
//
//   - A stage begins at the boundary of layers that is nearest to its first
//     operator. The embedding and the head stay with the first and last stage,
//     and a stage of less than half a layer has none.
//   - Its dp and tp are those of most of its operators, the smaller tp if two
//     are as frequent; the variant of an operator is lost.
//   - It recomputes as many whole layers as hold the activations that the plan
//     drops, rounded up.
//
// Microbatches are those of the plan, and the other knobs have their defaults:
// Aceso has no ZeRO and no interleaved schedule.
[[nodiscard]] trials::Plan LayerPlanOf(const OperatorModel& model,
                                       const OperatorPlan& plan);

}  // namespace planners
