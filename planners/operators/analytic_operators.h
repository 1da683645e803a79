// Operators of a GPT from its sizes, where no profiles exist.

#pragma once

#include <vector>

#include "planners/operators/operator_table.h"

namespace planners {

// A decoder in 16 bits, and a GPU.
struct AnalyticJob {
  int hidden = 2048;
  int heads = 16;
  int kv_heads = 16;  // fewer: grouped-query attention
  int feed_forward = 8192;
  bool gated = false;  // three matrices of the feed-forward layer, not two
  int sequence_length = 2048;
  int vocabulary = 50'304;
  double tflops = 60.0;          // that matrix products reach
  double memory_gb_per_s = 800;  // that other operators reach
  double link_gb_per_s = 100;    // of an all-reduce between GPUs of a host
  double between_hosts_gb_per_s = 12;
  int gpus_per_node = 8;
  int largest_tp = 8;
  std::vector<int> micro_batches = {1, 2, 4, 8};  // per GPU, ascending
};

// The operators of Aceso's profiles: the greater of the times of FLOPs and of
// bytes, backward twice the FLOPs, and a tensor-parallel all-reduce, 2 (t-1) /
// t of its tensor, after the two products that sum over features, between hosts
// where t exceeds the GPUs of one. Kept activations per token: 2 bytes per
// feature of every operator's input, dropout masks 1 byte, attention scores per
// head. Sizes of inputs and outputs are those of one GPU, as in the profiles:
// with the residual beside a block, and none after the loss. No reservations.
[[nodiscard]] OperatorTable AnalyticOperators(const AnalyticJob& job);

}  // namespace planners
