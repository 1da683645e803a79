#include "methods/planners/astra/money.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "common/units.h"
#include "trials/objective.h"

namespace methods {
namespace {

// The strategies of one cluster that pass the filters.
void AddCluster(const MoneyJob& job, const trials::SearchSpace& space, int gpus,
                const AstraMethodOptions& options, MoneyResult& result) {
  Problem problem;
  problem.space = &space;
  problem.machine =
      trials::GpuType{.gpus = gpus,
                      .gpus_per_node = std::min(gpus, job.gpus_per_node),
                      .memory_bytes = job.memory_bytes};
  problem.workload = &job.workload;
  const trials::Predictions estimates = EstimatesOf(problem, options);
  std::vector<int> all(space.size());
  std::iota(all.begin(), all.end(), 0);
  const std::vector<int> kept =
      ApplyFilters(std::move(all),
                   AstraFilters(problem, options, estimates.peak_memory_bytes))
          .kept;
  result.strategies += space.size();
  result.fit += static_cast<std::int64_t>(kept.size());
  const trials::Valuation cost{.price_per_gpu_hour = job.price_per_hour};
  for (const int candidate : kept) {
    const double time_s = estimates.step_time_s[candidate];
    result.pool.push_back({gpus, space[candidate], time_s,
                           job.steps * cost.CostOf(time_s, gpus)});
  }
}

}  // namespace

MoneyResult SearchMoney(const MoneyJob& job, int most_gpus,
                        const AstraMethodOptions& options) {
  if (most_gpus < 2) {
    throw common::InputError(
        fmt::format("most_gpus = {}: must be at least 2", most_gpus));
  }
  MoneyResult result;
  for (int gpus = 2; gpus <= most_gpus; gpus *= 2) {
    std::optional<trials::SearchSpace> space;
    try {
      space = trials::SearchSpace::Enumerate(job.workload, gpus, job.space);
    } catch (const common::InputError&) {
      continue;  // no strategy with so many GPUs
    }
    AddCluster(job, *space, gpus, options, result);
  }
  result.pool = OptimalPool(std::move(result.pool));
  return result;
}

std::vector<GpuStrategy> OptimalPool(std::vector<GpuStrategy> strategies) {
  std::ranges::stable_sort(strategies,
                           [](const GpuStrategy& a, const GpuStrategy& b) {
                             return std::pair(a.step_time_s, a.money) <
                                    std::pair(b.step_time_s, b.money);
                           });
  std::vector<GpuStrategy> pool;
  double least_faster = common::kInfinity;  // of strictly faster strategies
  double least = common::kInfinity;
  double time_s = 0.0;
  for (const GpuStrategy& strategy : strategies) {
    if (strategy.step_time_s > time_s) {
      least_faster = least;
      time_s = strategy.step_time_s;
    }
    least = std::min(least, strategy.money);
    if (strategy.money <= least_faster) {
      pool.push_back(strategy);
    }
  }
  return pool;
}

}  // namespace methods
