// Attention that never stores its scores.

#pragma once

#include "trainer/cuda/platform.h"
#include "trainer/device.h"

namespace trainer::cuda {

// Bytes of one of the two vectors that backward reads: log-sum-exp of the
// scores of each query, and <dout, out>.
[[nodiscard]] std::int64_t AttentionStatisticsBytes(
    const AttentionShape& shape);

// out = softmax(q k^T / sqrt(head_size)) v, as in Device::AttentionForward. The
// tiles of scores live in registers, and a running maximum and sum rescale the
// result. kept: float log-sum-exp [batch, heads, queries] or empty, as is out.
// Source: Dao (2023), FlashAttention-2, Algorithm 1.
void AttentionForward(const AttentionArgs& args, cudaStream_t stream);

// Two kernels compute the scores again: one owns queries and sums dq, one owns
// keys and sums dk and dv over the queries of all heads that share them. So no
// sum depends on the order of blocks. scratch: <dout, out> as `kept`.
// Source: ibid., Algorithm 2, whose atomic sums of dq the first kernel avoids.
void AttentionBackward(const AttentionArgs& args, cudaStream_t stream);

}  // namespace trainer::cuda
