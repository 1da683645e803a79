// The arguments of Aceso's primitives: which operators to recompute, which
// sizes a stage uses, how many operators to move.

#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "planners/operators/operator_plan.h"
#include "planners/operators/plan_cost.h"

namespace planners {

// A plan with its cost.
struct CostedPlan {
  OperatorPlan plan;
  PlanCost cost;
};
[[nodiscard]] CostedPlan Costed(const OperatorModel& model, OperatorPlan plan);

[[nodiscard]] bool Fits(const OperatorModel& model, const PlanCost& cost);

// Orders plans: those that fit by time, before all others by memory. Less is
// better.
[[nodiscard]] std::pair<bool, double> Score(const OperatorModel& model,
                                            const PlanCost& cost);

// Recomputes operators of a stage until it fits: the name with the largest sum
// of kept activations first, and of it as few operators as needed. The operator
// after each is recomputed with it, because its input is gone.
// Source: Aceso Sec. 4.1 (inc/dec-rc).
void FitRecomputation(const OperatorModel& model, OperatorPlan& plan,
                      int stage);
void FitRecomputation(const OperatorModel& model, OperatorPlan& plan);

// Gives all operators of a stage the tp and dp, with tp dp = gpus, that take
// the least time and fit (or else need the least memory). Returns false, and
// leaves the plan as it is, if none is profiled.
bool ChooseSizes(const OperatorModel& model, OperatorPlan& plan, int stage,
                 int gpus);

// Changes the sizes of the operators of a stage by powers of two. False, with
// some of them changed, where one cannot or is not profiled then.
struct SizeChange {
  int tp_log2 = 0;
  int dp_log2 = 0;
};
[[nodiscard]] bool Scale(const OperatorModel& model, OperatorPlan& plan,
                         int stage, const SizeChange& change);

// Moves `count` operators from a stage to the next (step = 1) or previous one
// (step = -1); they take the sizes of their neighbor there.
void MoveOperators(OperatorPlan& plan, int stage, int step, int count);

// dec-op#: moves operators from the bottleneck, stage by stage, to the stage
// with the most idle time (or the most free memory, where memory is exceeded),
// under goals from tight to loose; then again from the next bottleneck, at most
// five times. Adds the number of plans that it tried to `explored`.
// Returns the moves' result, or the plan as it is where no goal can be reached.
// Source: Aceso Sec. 4.1 (inc/dec-op#), Sec. 4.3 (relay).
[[nodiscard]] CostedPlan Relay(const OperatorModel& model,
                               const CostedPlan& from, int bottleneck,
                               std::int64_t& explored);

// The indices of values from the largest to the smallest, equals in their
// order.
[[nodiscard]] std::vector<int> LargestFirst(const std::vector<double>& values);

// The stages from the most to the least idle: GPU time that a stage waits for
// the slowest one, halved where it recomputes (its memory is full).
[[nodiscard]] std::vector<int> IdlestFirst(const PlanCost& cost);

}  // namespace planners
