// How ranks share the states of a model, and the all-gathers of parameters that
// ZeRO 3 needs for every use.

#pragma once

#include "trials/parallel_config.h"
#include "trials/simulator/framework.h"
#include "trials/simulator/topology.h"

namespace trials {

// The parameters that one action uses.
struct ShardedChunk {
  int blocks = 0;
  double block_parameters = 0.0;  // elements of one block on one rank
  double end_parameters = 0.0;    // of embedding and head, if it has them
  double element_bytes = 2.0;     // of compute
  double gathered_share = 1.0;    // of these bytes, in all-gathers of blocks
  double trained_share = 1.0;     // of the parameters of blocks
  double trained_ends = 1.0;      // of embedding and head
};

enum class Pass { kForward, kBackward };

// What a framework does with parameters, gradients and optimizer states under
// the knobs of a configuration. Times and memory ask it, not the framework.
struct ShardingBehavior {
  // A message of ZeRO has the parameters of a module (FSDP), not a bucket.
  bool by_module = false;
  // Shards hold gradients in fp32, the precision of their masters.
  bool fp32_shards = false;
  // A rank keeps no parameters but the masters of its shard.
  bool masters_only = false;
  // Gathered parameters stay until the last backward pass of a pipeline.
  bool keeps_gathered = false;
  // ZeRO 2 frees parameters after a microbatch and gathers them for the next.
  bool gathers_again = false;
  // Every rank gets its own shard of the gradients, not all of them.
  bool scatters = false;
  // Gradients stay whole on every rank until the last microbatch: with no_sync,
  // and in a pipeline, whose stages scatter them after their last backward pass
  // (torch.distributed.pipelining, stage.py).
  bool scatters_once = false;
  // Those of earlier microbatches are whole while the next ones are computed.
  bool holds_whole_gradients = false;
  // Groups of ranks hold a complete copy each: HYBRID_SHARD is a way of stages
  // 2 and 3, zero_group_ranks of all.
  bool in_groups = false;
};

[[nodiscard]] ShardingBehavior BehaviorOf(const Framework& framework,
                                          const ParallelConfig& shared);

// Exposed time of what ZeRO 3 communicates for a chunk in one pass, which
// computes for `compute_s`: forward gathers parameters; backward repeats that
// and scatters gradients (in fp32 if the framework reduces so). 0 without ZeRO
// 3.
//
// By buckets (Colossal-AI, DeepSpeed): messages of at most a bucket, at least
// one per block; with overlap_zero_allgather and overlap_zero_comm they overlap
// with computation.
//
// By blocks (ShardingBehavior::by_module; prefetching is always on): embedding
// and head form the outer unit, which is gathered first; then, with B blocks, g
// to gather one, r to scatter its gradients and c to compute it,
//
//   exposed = g_end + g + (B - 1) max(0, g - c)                 forward
//   exposed = g + (B - 1) max(0, g + r - c) + r + r_end         backward.
//
// If some of the ranks hold a complete copy together (FSDP's HYBRID_SHARD), g
// and r are of the ranks `within` a copy, and r includes an all-reduce of the
// shard `across` the copies. Hidden communication costs Framework::Slowdown of
// its time.
//
// Source: Rajbhandari et al. (2020), Sec. 7; Zhao et al. (2023), PyTorch FSDP,
// Sec. 3.3, 4.
[[nodiscard]] double ShardingTime(Pass pass, const ShardedChunk& chunk,
                                  const ShardLinks& links,
                                  const ParallelConfig& config,
                                  const Framework& framework, double compute_s);

}  // namespace trials
