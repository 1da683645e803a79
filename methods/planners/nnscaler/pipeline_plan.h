// nnScaler's search for a pipeline under constraints.

#ifndef METHODS_PLANNERS_NNSCALER_PIPELINE_PLAN_H_
#define METHODS_PLANNERS_NNSCALER_PIPELINE_PLAN_H_

#include <cstdint>
#include <vector>

#include "methods/planners/nnscaler/constraints.h"
#include "methods/planners/operators/operator_plan.h"
#include "methods/planners/operators/plan_cost.h"

namespace methods {

// A plan and its estimates.
struct NnScalerPlan {
  OperatorPlan plan;
  double iteration_ms = 0.0;  // PipelineMs
  double memory_mb = 0.0;
};

struct ConstrainedSearch {
  std::vector<NnScalerPlan> plans;  // the fastest first
  std::int64_t stages = 0;          // whose choices were found
  std::int64_t joins = 0;           // of a stage and the rest of a pipeline
};

// (B + s - 1) max_i t_i with s stages and B microbatches.
[[nodiscard]] double PipelineMs(const std::vector<double>& stage_ms,
                                int microbatches);

// For every number of replicas of a pipeline, microbatch size, and with and
// without recomputation, the plan with the least PipelineMs among those that
// satisfy the constraints and fit in memory; sizes without a plan are left out.
//
// A stage begins at a layer and has a power of two of GPUs of one host, and its
// operators have the fastest choices (IntraOperator) that the constraints
// allow. Stages of the same operators are solved once, and smaller ones than a
// host are taken to be within one. A dynamic program over (stages, GPUs, first
// layer) joins them. t_i is that of Aceso's model, transfers between stages
// included, which the published program leaves out.
// `fit` = false searches without the memory limit.
//
// Source: Lin et al. (OSDI 2024); the published planner for its cost and
// bounds.
[[nodiscard]] ConstrainedSearch SearchUnderConstraints(
    const OperatorModel& model, const PlanConstraints& constraints,
    bool fit = true);

}  // namespace methods

#endif  // METHODS_PLANNERS_NNSCALER_PIPELINE_PLAN_H_
