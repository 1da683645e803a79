// What Aceso is compared with, on the same performance model.

#pragma once

#include <cstdint>
#include <optional>

#include "planners/aceso/arguments.h"
#include "planners/operators/plan_cost.h"

namespace planners {

struct BaselineResult {
  std::optional<CostedPlan> best;  // that fits
  std::int64_t explored = 0;       // plans, or stages of plans

  // Keeps the plan if it fits and is faster.
  void Keep(const OperatorModel& model, OperatorPlan plan);
};

// Megatron-LM's plans: one tp, dp, microbatch size and recomputation for the
// whole model, stages of equally many layers, those of an encoder apart from
// those of a decoder. All of them are estimated.
// Source: Aceso Sec. 5, "Baseline systems"; the published program.
[[nodiscard]] BaselineResult MegatronGrid(const OperatorModel& model);

// Dynamic programming over (operators, GPUs, stages) for every microbatch size:
// the smallest time of the slowest stage, then the smallest sum of stage times.
// A stage has one tp and dp, powers of two, and recomputes as Aceso does; the
// first and the last stage's hosts are not distinguished. Stages begin at every
// `cut_every`-th operator; their operators per GPU are at most `most_operators`
// times the mean, and at least the mean over it.
// Source: Aceso Exp. 4, whose bounds are not published.
struct DynamicProgrammingOptions {
  int most_stages = 16;
  int cut_every = 1;
  double most_operators = 2.0;
};
[[nodiscard]] BaselineResult DynamicProgramming(
    const OperatorModel& model, const DynamicProgrammingOptions& options);

}  // namespace planners
