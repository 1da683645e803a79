// Plans of operators as plans of layers, which trials can run.

#ifndef METHODS_PLANNERS_ACESO_LAYER_PLAN_H_
#define METHODS_PLANNERS_ACESO_LAYER_PLAN_H_

#include "methods/planners/operators/operator_plan.h"
#include "methods/planners/operators/plan_cost.h"
#include "trials/plan.h"

namespace methods {

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

}  // namespace methods

#endif  // METHODS_PLANNERS_ACESO_LAYER_PLAN_H_
