// Peak memory of one rank.

#pragma once

#include "trials/parallel_config.h"
#include "trials/simulator/framework.h"
#include "trials/simulator/sharding.h"
#include "trials/simulator/step_report.h"
#include "trials/training.h"

namespace trials {

// The contents of the memory of one rank of a stage, before ZeRO shards it.
struct StageMemory {
  int dp = 1;
  int tp = 1;
  double parameters = 0.0;           // elements on one rank
  double expert_parameters = 0.0;    // additional, with ep > 1
  int expert_ranks = 1;              // that hold the same experts
  double frozen_bytes = 0.0;         // of weights without gradients
  double frozen_expert_bytes = 0.0;  // of these, on ep ranks
  Training training = {};            // what of it is offloaded; its optimizer
  double largest_tensor = 0.0;       // elements
  double largest_module = 0.0;       // elements
  // Of the module that needs most where parameters are gathered: two of them,
  // and the gradient of one.
  double gathered_bytes = 0.0;
  double activations_bytes = 0.0;  // saved by all microbatches in flight
  double logits_bytes = 0.0;       // peak around the loss; last stage only
  double working_bytes = 0.0;      // temporaries; a whole recomputed block
  double boundary_bytes = 0.0;     // one message between stages
  double collective_bytes = 0.0;   // one tensor-parallel collective
  double collectives = 0.0;        // of them in a microbatch
  double placeholder_bytes = 0.0;  // Framework::gradients.placeholder_gradients
  double channels = 4.0;           // NCCL's, of all communicators
  // Ranks that hold one copy of ZeRO's states together; 0: all dp * cp.
  int shard_ranks = 0;
  int gpu_type = 0;
  int first_rank = 0;  // of the stage, within its GPU type
};

// The memory of one rank of a stage under ZeRO. `shared` holds the knobs of the
// whole plan (Plan::shared).
//
// Bytes per parameter element e (2 in mixed precision, 4 in fp32), P elements:
//
//   parameters e P       (ZeRO 3: / dp; FSDP keeps the masters only)
//   gradients  e P, fp32 if the framework accumulates so
//                        (ZeRO 2, 3: / dp), then e P more for those of one
//                        microbatch unless products add to the sums directly
//   frozen     their bytes (ZeRO 3: / dp)
//   optimizer 12 P (fp32 master and two moments; fp32 training 8 P; other
//                        optimizers differ by Training::moment_bytes - 8;
//                        else Framework::optimizer.optimizer_state_bytes P)
//                        (ZeRO 1, 2, 3: / dp)
//
// where dp includes context-parallel ranks, is limited to a host for FSDP that
// shards within hosts and to Framework::sharding.zero_group_ranks, and is
// StageMemory::expert_ranks for experts on ep ranks: dp / ep, tp times as many
// where experts are whole. The result is the larger of two peaks: backward
// (saved activations, logits, buckets; with one microbatch, gradients replace
// the activations) and the optimizer's step (fp32 copies of the gradients).
//
// Source: Rajbhandari et al. (2020), Sec. 3; Colossal-AI's optimizers for
// what is copied when; Zhao et al. (2023), FSDP. docs/simulator.md, "Memory".
struct RankMemory {
  const ParallelConfig& shared;
  const StageMemory& stage;
  double element_bytes;
  const Framework& framework;
  ShardingBehavior behavior = BehaviorOf(framework, shared);

  [[nodiscard]] MemoryBreakdown Peak() const;
  // What the host holds for this rank (Offloaded): optimizer states, fp32
  // gradients and, where offloaded, parameters.
  [[nodiscard]] double HostBytes() const;
  // After set-up, before the first step.
  [[nodiscard]] double StateBytes() const;
  // Ranks over which ZeRO shards parameters, except experts.
  [[nodiscard]] double ShardRanks() const;
  // The ranks that share the states of an expert.
  [[nodiscard]] double ExpertShardRanks() const;
  // The share of a stage's parameters, except experts, whose optimizer states
  // are on the fullest rank under ZeRO: at least one tensor where tensors are
  // whole.
  [[nodiscard]] double OptimizerShare() const;
};

// The bytes of a peak that the allocator cannot release.
[[nodiscard]] inline double HeldBytes(const MemoryBreakdown& memory) {
  return memory.Total() - memory.pending_bytes;
}

// The peak on a GPU with `capacity_bytes`: an allocator that finds no free
// block waits for the GPU, which releases the pending memory.
[[nodiscard]] MemoryBreakdown WhenFull(MemoryBreakdown memory,
                                       double capacity_bytes);

}  // namespace trials
