// NNSCALER: trials in the order of nnScaler's plans.
//
// Built: its planner of pipelines under constraints and the constraints
// themselves: bubble, balance, memory, GPUs of a stage, and layers as the only
// beginnings of stages. Not built: partitions of operators by name, its three
// primitives for arbitrary graphs and schedules (op-trans, op-assign,
// op-order), its check of dependencies, its code generation, ZeRO 1, and the
// memory-constrained choice within a stage: a stage has the fastest choices,
// and is left out if they do not fit.

#pragma once

#include <memory>
#include <vector>

#include "methods/options.h"
#include "planners/operator_job.h"
#include "planners/operators/operator_plan.h"
#include "planners/operators/plan_cost.h"
#include "planners/planner.h"

namespace planners {

// The defaults are those of the published planner; no constraint is
// {1.0, 0.0, all GPUs}.
struct PlanConstraints {
  // The largest bubble of a pipeline of s stages with B microbatches,
  // (s - 1) / (s - 1 + B).
  double most_bubble = 0.4;
  // The time of a stage's operators per GPU is at least this share of the mean
  // over the plan, and at most the mean over this share.
  double least_balance = 0.5;
  int most_gpus_of_stage = 8;
};

// The most stages with so many microbatches and GPUs.
[[nodiscard]] int MostStages(const PlanConstraints& constraints,
                             int microbatches, int gpus);

// Whether `share`, the time of a stage per GPU over its mean, is balanced.
[[nodiscard]] bool IsBalanced(const PlanConstraints& constraints, double share);

// A plan and its estimates.
struct NnScalerPlan {
  OperatorPlan plan;
  double iteration_ms = 0.0;  // PipelineMs
  double memory_mb = 0.0;
};

// (B + s - 1) max_i t_i with s stages and B microbatches.
[[nodiscard]] double PipelineMs(const std::vector<double>& stage_ms,
                                int microbatches);

// For every number of replicas of a pipeline, microbatch size, and with and
// without recomputation, the plan with the least PipelineMs among those that
// satisfy the constraints and fit in memory, the fastest first; sizes without a
// plan are left out.
//
// A stage begins at a layer and has a power of two of GPUs of one host, and its
// operators have the fastest choices (IntraOperator). Stages of the same
// operators are solved once, and smaller ones than a host are taken to be
// within one. A dynamic program over (stages, GPUs, first layer) joins them.
// t_i is that of Aceso's model, transfers between stages included, which the
// published program leaves out. `fit` = false searches without the memory
// limit.
//
// Source: Lin et al. (OSDI 2024); the published planner for its cost and
// bounds.
[[nodiscard]] std::vector<NnScalerPlan> SearchUnderConstraints(
    const OperatorModel& model, const PlanConstraints& constraints,
    bool fit = true);

// Tries the nearest configuration of each plan of SearchUnderConstraints (by
// Distance), then the other candidates by their distance from the fastest plan.
// If no plan fits, the plans without the memory limit take their place, those
// with the least memory first.
struct NnScalerOptions : OperatorJobOptions {
  PlanConstraints constraints;
};

[[nodiscard]] std::vector<methods::Option> OptionsOf(NnScalerOptions& options);

// Estimates a configuration by PipelineMs and its memory, as a plan of equal
// stages; NaN if it has no plan, or its operators are not profiled.
[[nodiscard]] std::unique_ptr<Planner> MakePlanner(
    const NnScalerOptions& options);

}  // namespace planners
