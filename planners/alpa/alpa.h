// Alpa's two-level plan, on the performance model of Aceso: a baseline of its
// evaluation.
//
// Built: the inter-operator dynamic programming over stages and submeshes for
// every bound on the slowest stage, and an intra-operator choice that is
// optimal for a chain of operators. Not built: its integer program for any
// graph, its clustering of operators (stages begin at layers here), its
// shardings beyond the profiled ones, and its runtime. Profiles stand in for
// its compilation and profiling of every stage.

#pragma once

#include <vector>

#include "common/units.h"
#include "planners/aceso/baselines.h"
#include "planners/operators/operator_plan.h"
#include "planners/operators/plan_cost.h"

namespace planners {

// The choices of the operators [begin, end) on `gpus` GPUs, a power of two,
// with the least time of one microbatch without transfers between stages: tp
// and dp with tp dp = gpus, and the variant, per operator. With
// `recompute`, every operator that can be is recomputed, as in Alpa's
// evaluation. Empty where some operator is not profiled for any choice.
//
// The time is a sum over operators and over neighbors, so the program over the
// chain is exact.
[[nodiscard]] std::vector<OperatorChoice> IntraOperator(
    const OperatorModel& model, int begin, int end, int micro_batch, int gpus,
    bool recompute);

// A stage with its choices and estimates.
struct SolvedStage {
  double ms = common::kInfinity;       // per microbatch
  double last_mb = common::kInfinity;  // as the last stage
  // For each stage behind it, whose microbatches it keeps.
  double more_mb = 0.0;
  std::vector<OperatorChoice> choices;

  [[nodiscard]] double MemoryMb(int stages_behind) const {
    return last_mb + stages_behind * more_mb;
  }
};

// The stage of a view, which names its operators, hosts and microbatch size,
// with its IntraOperator choices; infinite where there are none.
[[nodiscard]] SolvedStage SolveStage(const OperatorModel& model, StageView view,
                                     int gpus, bool recompute);

// For every microbatch size, with and without recomputation, the plan with the
// least
//
//   sum_i t_i + (B - 1) max_j t_j
//
// over all partitions into stages and submeshes (powers of two that divide a
// host, or whole hosts) whose memory fits, where a stage has its IntraOperator
// choices and begins at one of at most 16 groups of layers. `explored` counts
// stages.
// Source: Zheng et al. (2022), Sec. 5, Eqs. 2-4, Alg. 1.
[[nodiscard]] BaselineResult AlpaPlan(const OperatorModel& model);

}  // namespace planners
