// Aceso: search for a plan by alleviating one bottleneck after the other.

#pragma once

#include <cstdint>
#include <vector>

#include "planners/aceso/arguments.h"
#include "planners/operators/plan_cost.h"

namespace planners {

// The plan that a search starts from: equally many operators in every stage on
// about equally many GPUs; one layer in every stage but the last; the GPUs in
// the last stages. Source: Aceso Exp. 7; the published program.
enum class AcesoStart { kEven, kUnevenOperators, kUnevenGpus };

struct AcesoOptions {
  AcesoStart start = AcesoStart::kEven;
  int most_hops = 7;     // MaxHops
  int most_stages = 16;  // of the stage counts that are searched
  // Plans to explore per stage count. The search has no clock, so that it is
  // reproducible. The published program searches for 200 s, and explores 52 to
  // 125 plans per second.
  int budget = 20'000;
  int top = 5;                // plans to return
  bool random_order = false;  // instead of Heuristic 2 (Exp. 5)
  std::uint64_t seed = 0;     // of the random order
  int threads = 1;            // does not change the result
};

// A better plan was found after so many explored plans.
struct AcesoProgress {
  std::int64_t explored = 0;
  double iteration_ms = 0.0;
};

// The search with one number of stages.
struct AcesoTrace {
  int stages = 0;
  std::int64_t explored = 0;
  std::vector<AcesoProgress> progress;
  // For the iterations that improved: hops, and bottlenecks tried (from 1).
  std::vector<int> hops;
  std::vector<int> bottlenecks;
};

struct AcesoResult {
  std::vector<CostedPlan> best;  // that fit, fastest first; may be empty
  // If none fits, the one that needs the least memory; empty if no number of
  // stages has profiled operators.
  std::vector<CostedPlan> least_memory;
  std::vector<AcesoTrace> traces;

  [[nodiscard]] std::int64_t explored() const;
};

// Algorithms 1 and 2, from an even partition with the smallest microbatch, for
// every number of stages. Each iteration looks for a better plan by at most
// most_hops primitives from the bottleneck, or else from the next one; it then
// fine-tunes single operators. When no bottleneck leads to a better plan, it
// continues with the best plan that it has seen and not explored. If no number
// of stages has an even partition by tensor parallelism, all start with one
// that replicates (FirstPlan).
//
// Source: Aceso Sec. 3-4, App. B.
[[nodiscard]] AcesoResult SearchAceso(const OperatorModel& model,
                                      const AcesoOptions& options);

// A start with the smallest microbatch and tensor parallelism only, or, to
// `replicate`, with data parallelism of the GPUs beyond the largest profiled
// tensor-parallel size. False where the GPUs cannot be divided so, and where
// there are fewer layers than stages. Note: the published program has the first
// kind only.
[[nodiscard]] bool FirstPlan(const OperatorModel& model, int stages,
                             AcesoStart start, bool replicate,
                             OperatorPlan& plan);

// Op-level adjustments of a plan: from each operator to an end of its stage, tp
// for dp or dp for tp; then the other variant of each operator. Keeps the best
// change of each stage if it is faster and fits.
// Source: Aceso Sec. 4.2.
[[nodiscard]] CostedPlan FineTune(const OperatorModel& model, CostedPlan plan,
                                  std::int64_t& explored);

}  // namespace planners
