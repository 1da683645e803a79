#include "methods/planners/nearest_plan.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

namespace methods {

PlanSizes SizesOf(const methods::OperatorPlan& plan, int batch) {
  PlanSizes sizes;
  double dp_log2 = 0.0;
  double tp_log2 = 0.0;
  double recomputed = 0.0;
  for (const methods::OperatorChoice& choice : plan.choices) {
    dp_log2 += choice.dp_log2;
    tp_log2 += choice.tp_log2;
    recomputed += choice.recomputed;
  }
  const auto count = static_cast<double>(plan.choices.size());
  sizes.dp = std::exp2(dp_log2 / count);
  sizes.tp = std::exp2(tp_log2 / count);
  sizes.pp = plan.stages();
  sizes.microbatches = static_cast<double>(batch) / plan.micro_batch;
  sizes.recomputes = recomputed >= 0.5 * count;
  return sizes;
}

double Distance(const PlanSizes& plan, const trials::ParallelConfig& config,
                bool accumulates) {
  const auto difference = [](double a, double b) {
    return std::abs(std::log2(a / b));
  };
  const bool recomputes = config.grad_checkpoint == trials::kRecomputeFull;
  return difference(plan.dp, config.dp) + difference(plan.tp, config.tp) +
         difference(plan.pp, config.pp) +
         (config.pp > 1 || accumulates
              ? difference(plan.microbatches, config.microbatches)
              : 0.0) +
         (plan.recomputes == recomputes ? 0.0 : 1.0);
}

std::vector<PlanSizes> InOrder(const Problem& problem,
                               std::vector<RankedPlan> plans) {
  if (!problem.sizes.empty()) {
    std::stable_sort(plans.begin(), plans.end(),
                     [](const auto& a, const auto& b) {
                       return std::pair(!a.fits, a.priced_ms) <
                              std::pair(!b.fits, b.priced_ms);
                     });
  }
  std::vector<PlanSizes> sizes;
  for (const RankedPlan& plan : plans) {
    sizes.push_back(plan.sizes);
  }
  return sizes;
}

std::vector<int> NearestOrder(const trials::SearchSpace& space,
                              const std::vector<PlanSizes>& plans) {
  std::vector<int> all(space.size());
  std::iota(all.begin(), all.end(), 0);
  const bool accumulates = std::any_of(all.begin(), all.end(), [&space](int i) {
    return space[i].pp == 1 && space[i].microbatches > 1;
  });
  std::vector<int> order;
  for (const PlanSizes& plan : plans) {
    order.push_back(
        *std::min_element(all.begin(), all.end(), [&](int a, int b) {
          return Distance(plan, space[a], accumulates) <
                 Distance(plan, space[b], accumulates);
        }));
  }
  std::stable_sort(all.begin(), all.end(), [&](int a, int b) {
    return Distance(plans[0], space[a], accumulates) <
           Distance(plans[0], space[b], accumulates);
  });
  order.insert(order.end(), all.begin(), all.end());
  return order;
}

}  // namespace methods
