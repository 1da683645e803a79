// The candidates nearest to plans of operators.

#ifndef METHODS_PLANNERS_NEAREST_PLAN_H_
#define METHODS_PLANNERS_NEAREST_PLAN_H_

#include <vector>

#include "methods/method.h"
#include "methods/planners/operators/operator_plan.h"
#include "trials/parallel_config.h"
#include "trials/search_space.h"

namespace methods {

// The configuration of a plan with unequal stages: pp is the number of stages;
// dp and tp are means over operators of their logarithms, and recomputation is
// full if at least half of the operators recompute. Its values need not be
// powers of two: it is compared by Distance.
struct PlanSizes {
  double dp = 1.0;
  double tp = 1.0;
  double pp = 1.0;
  double microbatches = 1.0;
  bool recomputes = false;
};
[[nodiscard]] PlanSizes SizesOf(const methods::OperatorPlan& plan, int batch);
// The sum of the differences of the logarithms to base 2 of dp, tp, pp and
// microbatches, and 1 where recomputation differs. Microbatches of a single
// stage count only if the space `accumulates` gradients; otherwise they are the
// framework's.
[[nodiscard]] double Distance(const PlanSizes& plan,
                              const trials::ParallelConfig& config,
                              bool accumulates);

// A plan for one number of GPUs.
struct RankedPlan {
  PlanSizes sizes;
  bool fits = true;
  double priced_ms = 0.0;  // of a step, times the relative price
};

// The sizes of plans that are in the order of trials for each part of the
// problem, in the order of trials for the whole: those that fit first, then by
// time.
[[nodiscard]] std::vector<PlanSizes> InOrder(const Problem& problem,
                                             std::vector<RankedPlan> plans);

// The nearest candidate of each plan, then all by distance from the first. A
// candidate may be in it several times.
[[nodiscard]] std::vector<int> NearestOrder(
    const trials::SearchSpace& space, const std::vector<PlanSizes>& plans);

}  // namespace methods

#endif  // METHODS_PLANNERS_NEAREST_PLAN_H_
