// Sums over the buffers of ranks that share a card.

#pragma once

#include <cstddef>
#include <cstdint>

#include "trainer/cuda/platform.h"

namespace trainer::cuda {

inline constexpr int kMostRanks = 64;

struct Buffers {
  std::byte* data[kMostRanks] = {};
  int count = 0;
};

// result[i] = sum (or maximum) over the ranks of from[rank][i], in the order of
// the ranks, for `size` elements. If `part` is 0, the result goes to every
// buffer of `to`; otherwise element i goes to place i % part of to[i / part].
// `to` may be `from`, or the parts of it.
void ReduceBuffers(bool maximum, int width, std::int64_t size,
                   std::int64_t part, const Buffers& from, const Buffers& to,
                   cudaStream_t stream);

}  // namespace trainer::cuda
