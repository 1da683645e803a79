// Astra: pipelines over several GPU types, and money.
//
// Built: the search of an uneven pipeline over GPU types for given sizes (Eq.
// 23), the money of a strategy and the pool of optimal strategies. Its mode 2
// over all parameters is in plan_search.h, its other modes in astra.h and
// money.h, its cost model in methods/planners/astra/astra_model.h.

#ifndef METHODS_PLANNERS_ASTRA_HETEROGENEOUS_H_
#define METHODS_PLANNERS_ASTRA_HETEROGENEOUS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/error.h"

namespace methods {

// A GPU type as a job sees it: with its tensor parallelism and microbatch.
struct AstraGpuType {
  std::string name;
  int limit = 0;             // GPUs that may be used
  double layer_ms = 0.0;     // one layer, one microbatch, forward and backward
  double transfer_ms = 0.0;  // from a stage on this type to the next stage
  int most_layers = 0;       // that fit into a stage
  double price_per_hour = 0.0;  // of one GPU
};

struct HeterogeneousJob {
  int layers = 0;
  int stages = 0;        // P
  int tp = 1;            // T
  int dp = 1;            // D
  int microbatches = 1;  // K
};

// Stages and layers per stage of one type.
struct TypeShare {
  int stages = 0;  // m_i
  int layers = 0;  // n_i of each, 0 without stages
};

struct HeterogeneousPlan {
  std::vector<TypeShare> shares;  // by GPU type
  double ms = 0.0;
};

struct HeterogeneousResult {
  std::optional<HeterogeneousPlan> best;  // the fastest; nothing: no solution
  std::int64_t solutions = 0;
};

// Calls `visit` with the shares of all types for each solution of
//
//   sum m_i = P,  m_i <= l_i / (D T),  sum m_i n_i = N,
//
// with n_i at least 1 and at most what fits.
// Errors: throws InputError for sizes below 1. Source: Astra Eq. 23.
void ForEachSolution(
    const HeterogeneousJob& job, std::span<const AstraGpuType> types,
    const std::function<void(const std::vector<TypeShare>&)>& visit);

// All solutions of sum m_i = P, m_i <= l_i / (D T), sum m_i n_i = N, n_i at
// most what fits; the fastest by Eq. 22. The order of the types does not matter
// for that time, so stages of one type are consecutive. Errors: throws
// InputError for sizes below 1. Source: Astra Eq. 23.
[[nodiscard]] HeterogeneousResult SearchHeterogeneous(
    const HeterogeneousJob& job, std::span<const AstraGpuType> types);

// A strategy by its throughput and its money.
struct Strategy {
  double samples_per_s = 0.0;
  double money = 0.0;
  int id = 0;
};

// Money = seconds x sum over types of GPUs x price. Source: Astra Eq. 32.
[[nodiscard]] double MoneyOf(const HeterogeneousPlan& plan,
                             const HeterogeneousJob& job,
                             std::span<const AstraGpuType> types,
                             double seconds);

// The strategies such that no other one has both a higher throughput and less
// money, by throughput (descending), then by money.
// Source: Astra Eqs. 30, 31, 33.
[[nodiscard]] std::vector<Strategy> OptimalPool(
    std::vector<Strategy> strategies);

// The strategy of the GPU type with the highest throughput within a limit.
[[nodiscard]] std::optional<Strategy> WithinLimit(
    const std::vector<Strategy>& gpu_type, double most_money);

}  // namespace methods

#endif  // METHODS_PLANNERS_ASTRA_HETEROGENEOUS_H_
