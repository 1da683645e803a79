// ZeRO 3: all-gathers of parameters for every use.

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
};

enum class Pass { kForward, kBackward };

// FSDP's gradients stay whole on every rank until the last microbatch: with
// no_sync, and in a pipeline, whose stages scatter them after their last
// backward pass (torch.distributed.pipelining, stage.py).
[[nodiscard]] bool ScattersOnce(const Framework& framework, int pp);

// Exposed time of what ZeRO 3 communicates for a chunk in one pass, which
// computes for `compute_s`: forward gathers parameters; backward repeats that
// and scatters gradients (in fp32 if the framework reduces so). 0 without ZeRO
// 3.
//
// By buckets (Colossal-AI, DeepSpeed): messages of at most a bucket, at least
// one per block; with overlap_zero_allgather and overlap_zero_comm they overlap
// with computation.
//
// By blocks (Framework::sharding.fsdp; prefetching is always on): embedding and
// head form the outer unit, which is gathered first; then, with B blocks, g to
// gather one, r to scatter its gradients and c to compute it,
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
