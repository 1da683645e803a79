// The candidate nearest to a configuration that need not be a candidate.

#pragma once

#include <vector>

#include "trials/search_space.h"

namespace methods {

// The sum over knobs of the difference: of the logarithms to base 2 for sizes,
// 1 for other knobs that differ.
[[nodiscard]] double Distance(const trials::ParallelConfig& a,
                              const trials::ParallelConfig& b,
                              const trials::KnobSet& knobs);

// The untried candidate at the smallest distance, the first one of several; -1
// when nothing is untried.
[[nodiscard]] int NearestUntried(const trials::SearchSpace& space,
                                 const std::vector<char>& tried,
                                 const trials::ParallelConfig& config);

}  // namespace methods
