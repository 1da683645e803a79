// Aceso's reconfiguration primitives and the choice among them.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "planners/aceso/arguments.h"
#include "planners/operators/plan_cost.h"

namespace planners {

enum class PrimitiveKind {
  kIncOperators,
  kDecOperators,
  kIncMicroBatch,
  kDecMicroBatch,
  kIncDp,
  kDecDp,
  kIncTp,
  kDecTp,
  kIncRecomputation,
  kDecRecomputation,
};

// Its effect on the consumption of a stage: decrease, none, increase.
struct Primitive {
  PrimitiveKind kind;
  std::array<int, 3> change;  // of computation, communication, memory
  SizeChange sizes = {};      // of a primitive that exchanges GPUs
};

// Source: Aceso Table 1.
[[nodiscard]] std::span<const Primitive> Primitives();

// Applies a primitive to a stage, its partners to the stages with the most idle
// resources, and refits recomputation (inc/dec-rc is attached to every other
// primitive, Sec. 4.3). Nothing if it cannot be applied. Adds the number of
// plans that it tried to `explored`.
[[nodiscard]] std::optional<CostedPlan> Apply(const OperatorModel& model,
                                              const CostedPlan& from, int stage,
                                              PrimitiveKind kind,
                                              std::int64_t& explored);

// Heuristic 1: the stages from the worst bottleneck on: by memory where memory
// is exceeded, by time otherwise.
[[nodiscard]] std::vector<int> BottlenecksOf(const OperatorModel& model,
                                             const PlanCost& cost);

// Heuristic 2, highest consumption first: groups of primitives in the order in
// which to try them. A stage that exceeds memory: those that decrease memory.
// Otherwise those that decrease the resource of which the stage consumes the
// largest share of all stages, then the second and the third one, and at last
// the rest. Computation is the time of the stage on one GPU over its GPUs;
// communication is the rest of the profiled time, which includes tensor-
// parallel collectives and lost efficiency, and transfers; memory is paid in
// recomputation.
[[nodiscard]] std::vector<std::vector<PrimitiveKind>> PrimitiveGroups(
    const OperatorModel& model, const PlanCost& cost, int stage);

}  // namespace planners
