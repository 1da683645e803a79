// NNSCALER: trials in the order of nnScaler's plans.
//
// Built: its planner of pipelines under constraints (pipeline_plan.h) and the
// constraints themselves (constraints.h): bubble, balance, memory, GPUs of a
// stage, layers as the only beginnings of stages, and partitions of operators
// by name. Not built: its three primitives for arbitrary graphs and schedules
// (op-trans, op-assign, op-order), its check of dependencies, its code
// generation, ZeRO 1, and the memory-constrained choice within a stage: a stage
// has the fastest choices, and is left out if they do not fit.

#ifndef METHODS_PLANNERS_NNSCALER_NNSCALER_H_
#define METHODS_PLANNERS_NNSCALER_NNSCALER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "methods/method.h"
#include "methods/options.h"
#include "methods/planners/nnscaler/constraints.h"
#include "methods/planners/operator_job.h"

namespace methods {

// Tries the nearest configuration of each plan of SearchUnderConstraints (by
// Distance), then the other candidates by their distance from the fastest plan.
// If no plan fits, the plans without the memory limit take their place, those
// with the least memory first. It learns nothing from trials.
struct NnScalerOptions : OperatorJobOptions {
  PlanConstraints constraints;
};

[[nodiscard]] std::vector<Option> OptionsOf(NnScalerOptions& options);

// PipelineMs and the memory of every candidate, as a plan of equal stages; NaN
// for a candidate that has no plan, or whose operators are not profiled.
// Errors: as MakeNnScaler.
[[nodiscard]] trials::Predictions EstimatesOf(const Problem& problem,
                                              const NnScalerOptions& options);

// Errors: throws InputError where the sizes of the model are unknown, for files
// that cannot be read and if no plan is profiled.
[[nodiscard]] std::unique_ptr<Method> MakeNnScaler(
    const Problem& problem, const NnScalerOptions& options, std::uint64_t seed);

}  // namespace methods

#endif  // METHODS_PLANNERS_NNSCALER_NNSCALER_H_
