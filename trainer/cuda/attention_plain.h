// Attention without tensor cores: for float, and for heads of any size.

#ifndef TRAINER_CUDA_ATTENTION_PLAIN_H_
#define TRAINER_CUDA_ATTENTION_PLAIN_H_

#include "trainer/cuda/attention_tiles.h"
#include "trainer/device.h"

namespace trainer::cuda {

// A block per query of a head, whose scores are in shared memory.
void PlainAttentionForward(const AttentionShape& shape,
                           const AttentionSizes& sizes, Tensor q, Tensor k,
                           Tensor v, Tensor out, float* log_sums,
                           cudaStream_t stream);

// deltas = <dout, out> of each query and head.
void AttentionDeltas(const AttentionShape& shape, const AttentionSizes& sizes,
                     Tensor dout, Tensor out, float* deltas,
                     cudaStream_t stream);

// inputs: dout, q, k, v; gradients: dq, dk, dv.
void PlainAttentionBackward(const AttentionShape& shape,
                            const AttentionSizes& sizes,
                            const Tensor (&inputs)[4], const float* log_sums,
                            const float* deltas, const Tensor (&gradients)[3],
                            cudaStream_t stream);

}  // namespace trainer::cuda

#endif  // TRAINER_CUDA_ATTENTION_PLAIN_H_
