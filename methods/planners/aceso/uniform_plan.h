// Plans of operators that treat all stages alike, as configurations do.

#ifndef METHODS_PLANNERS_ACESO_UNIFORM_PLAN_H_
#define METHODS_PLANNERS_ACESO_UNIFORM_PLAN_H_

#include <optional>
#include <vector>

#include "methods/planners/operators/operator_plan.h"
#include "methods/planners/operators/plan_cost.h"
#include "trials/parallel_config.h"

namespace methods {

// The first operator of each layer.
[[nodiscard]] std::vector<int> LayersOf(const OperatorModel& model);

// Stages of equally many layers; if the stages do not divide the layers, some
// have one more. Their sizes are not set yet.
[[nodiscard]] OperatorPlan EqualStages(const OperatorModel& model, int stages);

// The same sizes, powers of two, for every operator. Selective recomputation
// repeats the core of attention.
void SetSizes(const OperatorModel& model, int tp, int dp,
              trials::Recomputation recomputation, OperatorPlan& plan);

// The plan of a configuration, as far as plans have its knobs: dp, tp, pp,
// microbatches and recomputation. Nothing for sizes that are not powers of two,
// microbatches that do not divide the batch, more stages than layers, and
// context parallelism.
[[nodiscard]] std::optional<OperatorPlan> PlanOf(
    const OperatorModel& model, const trials::ParallelConfig& config);

}  // namespace methods

#endif  // METHODS_PLANNERS_ACESO_UNIFORM_PLAN_H_
