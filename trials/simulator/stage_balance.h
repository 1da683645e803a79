// Blocks of a pipeline's stages dealt out by their cost.

#ifndef TRIALS_SIMULATOR_STAGE_BALANCE_H_
#define TRIALS_SIMULATOR_STAGE_BALANCE_H_

#include <vector>

#include "trials/workload.h"

namespace trials {

// The vocabulary head in units of a block, by parameters in products of
// matrices: v h / (h (q + 2 k + o) + (2 or 3) h f).
[[nodiscard]] double BlocksInHead(const Model& model);

// How many blocks each virtual stage gets: block l, whose cumulated cost is l,
// goes to the first stage s with l <= (s + 1) (L + head) / S. The head goes to
// the last.
//
// Source: nanotron, build_model (PipelineBlock ranks by cumulated
// get_block_compute_costs).
// Errors: throws std::invalid_argument when a stage would get nothing.
[[nodiscard]] std::vector<int> BalanceLayers(int layers,
                                             double head,
                                             int virtual_stages);

}  // namespace trials

#endif  // TRIALS_SIMULATOR_STAGE_BALANCE_H_
