// GRID: all configurations in their order, without those that must fail.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "methods/method.h"
#include "methods/options.h"

namespace methods {

// Tries the candidates size by size, in the order of the space and, of the same
// (dp, tp, pp), from the most to the least sparing. It prunes by history: once
// a configuration ran out of memory, those that need at least as much memory
// are not tried. They differ from it only in fewer microbatches (larger ones),
// a lower ZeRO stage or less recomputation. Static constraints have pruned the
// space before (`oppa space --why` has the number that each one dropped).
//
// Source: "Configuration search" (textbook), pruned grid search.
struct GridOptions {
  bool prune = true;
};

[[nodiscard]] std::vector<Option> OptionsOf(GridOptions& options);

[[nodiscard]] std::unique_ptr<Method> MakeGrid(const Problem& problem,
                                               const GridOptions& options,
                                               std::uint64_t seed);

// Whether `config` needs at least the memory of `failed`, see Grid.
[[nodiscard]] bool NeedsMore(const trials::ParallelConfig& config,
                             const trials::ParallelConfig& failed);

}  // namespace methods
