// Small versions of workloads, for trials on CPU ranks.

#ifndef TRIALS_SCALED_WORKLOAD_H_
#define TRIALS_SCALED_WORKLOAD_H_

#include "trials/workload.h"

namespace trials {

// Divides head and patch size, feed-forward size, vocabulary and sequence
// length by a factor, with lower bounds and multiples such that every
// configuration that was valid stays so. Layers, heads, experts and the batch
// keep their numbers. A factor of 1 or less changes nothing.
[[nodiscard]] Workload Scaled(Workload workload, int factor);

}  // namespace trials

#endif  // TRIALS_SCALED_WORKLOAD_H_
