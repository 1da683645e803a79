// Distribution of a model's blocks over pipeline stages by their cost.

#pragma once

#include <vector>

namespace trials {

struct Model;

// The vocabulary head in units of a block, by parameters in products of
// matrices: v h / (h (q + 2 k + o) + (2 or 3) h f).
[[nodiscard]] double BlocksInHead(const Model& model);

// The number of blocks of each virtual stage: stage s takes modules (blocks,
// final norm, head, cast to fp32, loss) until the sum of all costs so far
// reaches (s + 1) (L + head) / S. The head belongs to the last stage, together
// with the blocks of the stage that takes it; where only the loss follows the
// head, the stage before the last stays empty instead.
//
// Source: nanotron, build_model: pipeline blocks by cumulated
// get_block_compute_costs; nanotron cannot train
// with the empty stages.
// Errors: throws InvalidPlan if a stage would get no module.
[[nodiscard]] std::vector<int> BalanceLayers(int layers, double head,
                                             int virtual_stages);

}  // namespace trials
