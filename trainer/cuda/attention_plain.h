// Attention without tensor cores: for float, and for heads of any size.

#pragma once

#include "trainer/cuda/attention_tiles.h"
#include "trainer/device.h"

namespace trainer::cuda {

// A block per query of a head, whose scores are in shared memory.
void PlainAttentionForward(const AttentionArgs& args,
                           const AttentionSizes& sizes, cudaStream_t stream);

// scratch = <dout, out> of each query and head.
void AttentionDeltas(const AttentionArgs& args, const AttentionSizes& sizes,
                     cudaStream_t stream);

void PlainAttentionBackward(const AttentionArgs& args,
                            const AttentionSizes& sizes, cudaStream_t stream);

}  // namespace trainer::cuda
