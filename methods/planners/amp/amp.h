// AMP: trials in the order of AMP's strategies.
//
// Built: the cost model for clusters whose hosts have unequal bandwidths
// (amp_model.h), the placement of stages on hosts (placement.h, regular tilings
// only), the dynamic program that assigns uneven layers to stages for each
// microbatch size (layer_assignment.h), and the search over all sizes. Not
// built: GPUs of several types (AMP's own profiles have one, too), its
// simulated annealing, which replaces the enumeration of placements on large
// clusters, and its launcher. Its model has no memory; the option
// `memory_filter` adds that of Aceso's model.

#ifndef METHODS_PLANNERS_AMP_AMP_H_
#define METHODS_PLANNERS_AMP_AMP_H_

#include <memory>
#include <vector>

#include "methods/options.h"
#include "methods/planners/amp/amp_model.h"
#include "methods/planners/operator_job.h"
#include "methods/planners/planner.h"

namespace methods {

// A strategy: sizes, placement and layers.
struct AmpStrategy {
  AmpSizes sizes;
  Placement placement;
  std::vector<int> first;  // LayerAssignment
  AmpCost cost;
  double memory_mb = 0.0;  // by the operator model
};

// The best strategy of every (tp, dp, pp, microbatch size), the fastest first:
// all placements, each with its best assignment of layers. tp is at most a host
// and all sizes are powers of two. Sizes without profiles are left out.
// Source: Li et al. (2022), arXiv 2210.07297.
[[nodiscard]] std::vector<AmpStrategy> SearchAmp(const AmpModel& model);

// Proposes the nearest configuration of each strategy, the fastest first. A
// candidate has stages of equally many layers and the framework's placement, so
// it is judged without the strategy's layers and placement. Strategies do not
// recompute.
struct AmpOptions : OperatorJobOptions {
  // Strategies that need more than memory_share of the GPU come last.
  bool memory_filter = false;
};

[[nodiscard]] std::vector<Option> OptionsOf(AmpOptions& options);

// Estimates a configuration by AMP's cost model, placed as the fastest regular
// placement, with equal stages, and its memory by Aceso's model. NaN where
// operators are not profiled, sizes are not powers of two or exceed the layers.
[[nodiscard]] std::unique_ptr<Planner> MakePlanner(const AmpOptions& options);

}  // namespace methods

#endif  // METHODS_PLANNERS_AMP_AMP_H_
