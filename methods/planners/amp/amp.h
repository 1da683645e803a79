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

#include <cstdint>
#include <memory>
#include <vector>

#include "methods/method.h"
#include "methods/options.h"
#include "methods/planners/amp/amp_model.h"
#include "methods/planners/operator_job.h"

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

// Tries the nearest configuration of each strategy (NearestOrder), the fastest
// strategy first, then the other candidates by their distance from it. A
// candidate has stages of equally many layers and the framework's placement, so
// it is judged without the strategy's layers and placement. Strategies do not
// recompute. It learns nothing from trials.
struct AmpOptions : OperatorJobOptions {
  // Strategies that need more than memory_share of the GPU come last.
  bool memory_filter = false;
};

[[nodiscard]] std::vector<Option> OptionsOf(AmpOptions& options);

// Step time and memory of every candidate by AMP's cost model, placed as the
// fastest regular placement, with equal stages. NaN where operators are not
// profiled, sizes are not powers of two or exceed the layers. Memory is that of
// Aceso's model.
// Errors: as MakeAmp.
[[nodiscard]] trials::Predictions EstimatesOf(const Problem& problem,
                                              const AmpOptions& options);

// Errors: throws InputError where the sizes of the model are unknown, for files
// that cannot be read and if no strategy is profiled.
[[nodiscard]] std::unique_ptr<Method> MakeAmp(const Problem& problem,
                                              const AmpOptions& options,
                                              std::uint64_t seed);

}  // namespace methods

#endif  // METHODS_PLANNERS_AMP_AMP_H_
