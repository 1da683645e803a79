// Astra's cost mode: the numbers of GPUs and the strategies that train fastest
// within any limit of money.
//
// This mode answers from the model alone; so it is a function, not a method. In
// a search for the least money, the method in astra.h orders strategies by it.

#ifndef METHODS_PLANNERS_ASTRA_MONEY_H_
#define METHODS_PLANNERS_ASTRA_MONEY_H_

#include <cstdint>
#include <vector>

#include "common/error.h"
#include "methods/planners/astra/astra.h"
#include "trials/search_space.h"
#include "trials/workload.h"

namespace methods {

// A training job and one GPU type.
struct MoneyJob {
  trials::Workload workload;
  trials::SearchSpaceOptions space;  // parameters and rules
  double memory_bytes = 80e9;        // per GPU
  int gpus_per_node = 8;
  double price_per_hour = 1.0;  // of a GPU
  double steps = 1.0;           // of the training
};

struct GpuStrategy {
  int gpus = 0;
  trials::ParallelConfig config;
  double step_time_s = 0.0;
  double money = 0.0;  // of the whole training
};

// The strategies such that no other one has both a higher throughput and less
// money, the fastest first and, of equally fast ones, the cheapest.
// Source: Astra Eqs. 30, 31, 33.
[[nodiscard]] std::vector<GpuStrategy> OptimalPool(
    std::vector<GpuStrategy> strategies);

struct MoneyResult {
  std::int64_t strategies = 0;
  std::int64_t fit = 0;           // of them, those that pass the filters
  std::vector<GpuStrategy> pool;  // the optimal ones
};

// All strategies with 2, 4, 8, ... GPUs, at most `most_gpus`. A number of GPUs
// without a valid strategy is left out.
// Errors: throws InputError for most_gpus < 2 and as AstraFilters.
// Source: Astra Eqs. 3, 29-33.
[[nodiscard]] MoneyResult SearchMoney(const MoneyJob& job, int most_gpus,
                                      const AstraMethodOptions& options);

}  // namespace methods

#endif  // METHODS_PLANNERS_ASTRA_MONEY_H_
