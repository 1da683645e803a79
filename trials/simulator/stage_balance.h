// Blocks of a pipeline's stages dealt out by their cost.

#ifndef TRIALS_SIMULATOR_STAGE_BALANCE_H_
#define TRIALS_SIMULATOR_STAGE_BALANCE_H_

#include <vector>

#include "trials/workload.h"

namespace trials {

// The vocabulary head in units of a block, by parameters in products of
// matrices: v h / (h (q + 2 k + o) + (2 or 3) h f).
[[nodiscard]] double BlocksInHead(const Model& model);

// How many blocks each virtual stage gets: a stage s takes modules (blocks,
// final norm, head, cast to fp32, loss) until the sum of all costs so far
// reaches (s + 1) (L + head) / S. The head counts as part of the last stage,
// with the blocks that stand beside it; where only the loss stands behind it,
// the stage before the last is left empty instead.
//
// Source: nanotron, build_model: pipeline blocks by cumulated
// get_block_compute_costs; its stages that stay empty cannot train.
// Errors: throws std::invalid_argument when a stage would get no module.
[[nodiscard]] std::vector<int> BalanceLayers(int layers,
                                             double head,
                                             int virtual_stages);

}  // namespace trials

#endif  // TRIALS_SIMULATOR_STAGE_BALANCE_H_
