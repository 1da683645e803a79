// HIERARCHICAL: parallelism first, then memory, then microbatches.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "methods/method.h"
#include "methods/options.h"

namespace methods {

// Level 1 tries one configuration of each (dp, tp, pp), in random order: the
// one nearest to the median microbatches with recomputation and the highest
// ZeRO stage, so that it is likely to fit. Level 2 varies ZeRO and
// recomputation of the fastest one, level 3 microbatches and model chunks,
// level 4 every other knob of the same sizes. Then come the remaining
// candidates at random.
//
// Source: "Configuration search" (textbook), hierarchical search. It decides by
// its performance model and keeps 10 parallelisms; trials decide here.
struct HierarchicalOptions {
  int parallelism_trials = 10;
  int trials_per_level = 6;  // of each later level
};

[[nodiscard]] std::vector<Option> OptionsOf(HierarchicalOptions& options);

[[nodiscard]] std::unique_ptr<Method> MakeHierarchical(
    const Problem& problem, const HierarchicalOptions& options,
    std::uint64_t seed);

}  // namespace methods
