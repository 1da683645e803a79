// Families of configurations, for leaving an exhausted neighborhood.

#ifndef METHODS_OPPA_FAMILIES_H_
#define METHODS_OPPA_FAMILIES_H_

#include <vector>

#include "trials/search_space.h"

namespace methods {

// Configurations are of one family when they agree in dp, tp, pp and the ZeRO
// stage: their other differences (buckets, overlaps, microbatches, chunks)
// rarely change which resource is the bottleneck.
//
// For every candidate 1 if a member of its family was tried, [N]; empty once
// every family was.
// Shapes: tried [N].
[[nodiscard]] std::vector<char> TriedFamilies(const trials::SearchSpace& space,
                                              const std::vector<char>& tried);

}  // namespace methods

#endif  // METHODS_OPPA_FAMILIES_H_
