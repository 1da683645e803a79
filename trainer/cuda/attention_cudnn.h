// The graphs of cuDNN that compute attention.

#pragma once

#include <memory>

#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

#include "trainer/device.h"

namespace trainer::cuda {

// The names of a graph's tensors.
enum AttentionTensor { kQ = 1, kK, kV, kOut, kLogSums, kDout, kDq, kDk, kDv };

// Attention of bfloat16 numbers, as in Device; not yet validated. Of a causal
// shape, the keys end at the position of the last query.
[[nodiscard]] std::shared_ptr<cudnn_frontend::graph::Graph> AttentionGraph(
    const AttentionShape& shape, bool backward);

// The keys from the first one on that some query sees.
[[nodiscard]] std::int64_t KeysSeen(const AttentionShape& shape);

}  // namespace trainer::cuda
