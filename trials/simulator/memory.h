// Memory of one rank, at the moment when it needs the most.

#ifndef TRIALS_SIMULATOR_MEMORY_H_
#define TRIALS_SIMULATOR_MEMORY_H_

#include "trials/parallel_config.h"
#include "trials/simulator/framework.h"
#include "trials/simulator/step_report.h"

namespace trials {

// What a stage holds, whatever the ZeRO stage.
struct StageMemory {
  double parameters = 0.0;         // elements on one rank
  double expert_parameters = 0.0;  // besides: of experts spread over ep ranks
  double largest_tensor = 0.0;     // elements
  double largest_module = 0.0;     // elements; gathered whole by ZeRO 3
  double activations_bytes = 0.0;  // saved by all microbatches in flight
  double logits_bytes = 0.0;       // peak around the loss; last stage only
  double working_bytes = 0.0;      // temporaries; a whole recomputed block
  double boundary_bytes = 0.0;     // one message between stages
  double message_bytes = 0.0;      // of tensor parallelism: a whole tensor
  // Ranks that FSDP spreads a copy over (ZeRO 2, 3); 0: all dp * cp.
  int shard_ranks = 0;
};

// Ranks over which ZeRO spreads what it shards, but experts.
[[nodiscard]] double ShardRanks(const ParallelConfig& config,
                                const StageMemory& stage);

// Bytes per parameter element e (2 in mixed precision, 4 in fp32), P elements:
//
//   parameters e P       (ZeRO 3: / dp; FSDP keeps the masters only)
//   gradients  e P, fp32 if the framework accumulates so
//                        (ZeRO 2, 3: / dp), then e P more for those of one
//                        microbatch unless products add to the sums directly
//   optimizer 12 P (fp32 master and two moments; fp32 training 8 P)
//                        (ZeRO 1, 2, 3: / dp)
//
// where dp counts context-parallel ranks, is only those of a host for FSDP that
// shards within hosts, and is dp / ep for experts that are spread over ep
// ranks, and the larger of two moments: in backward (saved activations, logits,
// buckets; with one microbatch the gradients come as the activations go) and
// in the optimizer's step (fp32 copies of the gradients).
//
// Source: Rajbhandari et al. (2020), Sec. 3; Colossal-AI's optimizers for
// what is copied when; Zhao et al. (2023), FSDP. docs/simulator.md, "Memory".
[[nodiscard]] MemoryParts ComputeMemory(const ParallelConfig& config,
                                        const StageMemory& stage,
                                        double element_bytes,
                                        const Framework& framework);

// The same on a GPU of so many bytes: an allocator that finds no free block
// waits for the GPU, and then gets what was pending.
[[nodiscard]] MemoryParts WhenFull(MemoryParts memory, double capacity_bytes);

// What stands in memory after set-up, before the first step.
[[nodiscard]] double StateBytes(const ParallelConfig& config,
                                const StageMemory& stage,
                                double element_bytes,
                                const Framework& framework);

}  // namespace trials

#endif  // TRIALS_SIMULATOR_MEMORY_H_
