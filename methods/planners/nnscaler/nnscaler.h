// NNSCALER: trials in the order of nnScaler's plans.
//
// Built: its planner of pipelines under constraints (pipeline_plan.h) and the
// constraints themselves: bubble, balance, memory, GPUs of a
// stage, and layers as the only beginnings of stages. Not built: partitions of
// operators by name, its three primitives for arbitrary graphs and schedules
// (op-trans, op-assign, op-order), its check of dependencies, its code
// generation, ZeRO 1, and the memory-constrained choice within a stage: a stage
// has the fastest choices, and is left out if they do not fit.

#ifndef METHODS_PLANNERS_NNSCALER_NNSCALER_H_
#define METHODS_PLANNERS_NNSCALER_NNSCALER_H_

#include <memory>
#include <vector>

#include "methods/options.h"
#include "methods/planners/nnscaler/pipeline_plan.h"
#include "methods/planners/operator_job.h"
#include "methods/planners/planner.h"

namespace methods {

// Tries the nearest configuration of each plan of SearchUnderConstraints (by
// Distance), then the other candidates by their distance from the fastest plan.
// If no plan fits, the plans without the memory limit take their place, those
// with the least memory first.
struct NnScalerOptions : OperatorJobOptions {
  PlanConstraints constraints;
};

[[nodiscard]] std::vector<Option> OptionsOf(NnScalerOptions& options);

// Estimates a configuration by PipelineMs and its memory, as a plan of equal
// stages; NaN if it has no plan, or its operators are not profiled.
[[nodiscard]] std::unique_ptr<Planner> MakePlanner(
    const NnScalerOptions& options);

}  // namespace methods

#endif  // METHODS_PLANNERS_NNSCALER_NNSCALER_H_
