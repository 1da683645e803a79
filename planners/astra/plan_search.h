// Astra's search over plans: layers, GPU types and recomputed layers by stage.
//
// Its mode 2, heterogeneous clusters with a limit for each GPU type, over the
// values of all other parameters that a search space has. On one GPU type it is
// mode 1 with recomputation of some layers.

#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "methods/method.h"
#include "planners/astra/astra.h"
#include "planners/astra/astra_model.h"
#include "trials/plan.h"

namespace planners {

// Stages of one GPU type, and the layers of each of them.
struct TypeShare {
  int stages = 0;  // m_i
  int layers = 0;  // n_i, 0 without stages
};

// All solutions of
//
//   sum m_i = P,  m_i <= l_i / (D T),  sum m_i n_i = N,  n_i >= 1 where m_i > 0
//
// for P stages and N layers, where `most_stages` has l_i / (D T) by type.
// Source: Astra Eq. 23.
[[nodiscard]] std::vector<std::vector<TypeShare>> SharesOf(
    int stages, int layers, const std::vector<int>& most_stages);

struct PlanSearchOptions {
  int gpus = 0;          // of all types together; 0: those of the cluster
  int top = 20;          // strategies to keep, > 0
  bool groups = false;   // uniform recomputation in groups of 2, 3, ... layers
  bool offload = false;  // an optimizer on the host, with and without overlap
};

// The cost model of plans: each stage by Eqs. 25-28 on its GPU type, the step
// by Eq. 22, with consecutive stages on consecutive GPUs of a type (pipeline
// outermost). Several types have the rates of their data sheets, a single one
// that of the options. Blocks are computed once for each type and microbatch.
class AstraPlanModel {
 public:
  // Errors: throws InputError without a workload.
  AstraPlanModel(const methods::Problem& problem,
                 const AstraMethodOptions& options);

  struct Cost {
    double step_time_s = 0.0;
    // The share of its memory in the stage that fills its GPU most.
    double memory_share = 0.0;
  };
  [[nodiscard]] Cost CostOf(const trials::Plan& plan,
                            const AstraExtras& extras = {});

 private:
  // GPU type, dp * microbatches, tp, cp, ep.
  using BlockKey = std::tuple<int, int, int, int, int>;
  const AstraBlock& Block(int gpu_type, const trials::ParallelConfig& config);

  std::vector<trials::GpuType> gpu_types_;
  std::vector<AstraModel> models_;  // by gpu_type
  std::map<BlockKey, AstraBlock> blocks_;
};

struct CostedStrategy {
  trials::Plan plan;
  AstraPlanModel::Cost cost;
  AstraExtras extras;
};

struct PlanSearchResult {
  std::int64_t strategies = 0;  // that pass the rules
  std::int64_t fit = 0;         // of them, those that fit in memory
  // That fit, the fastest first; of equally fast ones, the cheapest (Eq. 33),
  // as if prices were proportional to the FLOP/s of the data sheets.
  std::vector<CostedStrategy> best;
};

// All solutions of Eq. 23 for all sizes with dp * cp * tp * pp = GPUs, in every
// order of the GPU types; all values of tp, cp, ep, sequences of a microbatch,
// ZeRO stage, sequence parallelism, model chunks and recomputation that a
// candidate of the space has together, in a pipeline or without one; and, where
// the space has full recomputation, the first 1, 2, ... layers of every stage.
//
// Note: the other knobs (buckets, overlaps) have the values of Table 3 or their
// defaults, and the rules of the space apply to candidates only.
// Source: Astra Sec. 3.3 and 3.4, Eqs. 22-23; Table 3.
// Errors: throws InputError for rules that cannot be understood, and as above.
[[nodiscard]] PlanSearchResult SearchPlans(
    const methods::Problem& problem, const AstraMethodOptions& options,
    const PlanSearchOptions& search = {});

// The candidate as a plan: equal stages, which fill the GPU types in order.
[[nodiscard]] trials::Plan PlanOfCandidate(
    const methods::Problem& problem, const trials::ParallelConfig& config);

}  // namespace planners
