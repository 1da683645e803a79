#include "methods/planners/astra/money.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include <fmt/format.h>

#include "methods/planners/astra/heterogeneous.h"

namespace methods {
namespace {

constexpr double kHour = 3600.0;

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
  for (const int candidate : kept) {
    const double time_s = estimates.step_time_s[candidate];
    result.pool.push_back(
        {gpus, space[candidate], time_s,
         job.steps * time_s / kHour * gpus * job.price_per_hour});
  }
}

// Replaces all strategies by the optimal ones.
void KeepOptimal(MoneyResult& result) {
  std::vector<Strategy> strategies;
  for (const GpuStrategy& each : result.pool) {
    strategies.push_back({.samples_per_s = 1.0 / each.step_time_s,
                          .money = each.money,
                          .id = static_cast<int>(strategies.size())});
  }
  std::vector<GpuStrategy> pool;
  for (const Strategy& each : OptimalPool(std::move(strategies))) {
    pool.push_back(result.pool[each.id]);
  }
  result.pool = std::move(pool);
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
  KeepOptimal(result);
  return result;
}

std::optional<GpuStrategy> WithinLimit(const MoneyResult& result,
                                       double most_money) {
  const auto first = std::find_if(
      result.pool.begin(), result.pool.end(),
      [&](const GpuStrategy& each) { return each.money <= most_money; });
  return first == result.pool.end() ? std::nullopt : std::optional(*first);
}

}  // namespace methods
