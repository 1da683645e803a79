// Attention that stores the log-sum-exp of its scores, not the scores.

#pragma once

#include <memory>

#include "trainer/cuda/platform.h"
#include "trainer/device.h"

namespace trainer::cuda {

// Bytes of one of the two vectors that backward reads, float [batch, heads,
// queries]: the log-sum-exp of the scores, in `kept`, and <dout, out>.
[[nodiscard]] std::int64_t AttentionStatisticsBytes(
    const AttentionShape& shape);

// Without tensor cores, for numbers and heads of any size: as in
// Device::AttentionForward and AttentionBackward, with `kept`. scratch: <dout,
// out>. No sum depends on the order of blocks.
void PlainAttentionForward(const AttentionArgs& args, cudaStream_t stream);
void PlainAttentionBackward(const AttentionArgs& args, cudaStream_t stream);

// Attention by a library.
class FusedAttention {
 public:
  virtual ~FusedAttention() = default;
  // Scratch memory of both directions; 0 where there are no kernels.
  [[nodiscard]] virtual std::int64_t ScratchBytes(
      const AttentionShape& shape) = 0;
  // False: there is no kernel for the shape.
  // Errors: throws std::runtime_error.
  [[nodiscard]] virtual bool Run(const AttentionArgs& args, bool backward,
                                 cudaStream_t stream) = 0;
};

// Of bfloat16 numbers, by cuDNN, which sums dq in an order that varies.
[[nodiscard]] std::unique_ptr<FusedAttention> MakeFusedAttention();

}  // namespace trainer::cuda
