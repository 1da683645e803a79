#include "trials/simulator/memory.h"

#include <algorithm>

namespace trials {
namespace {

// Bytes of one mebibyte of a bucket knob.
constexpr double kMega = 1024.0 * 1024.0;

double ContextBytes(const ParallelConfig& config, const Framework& framework) {
  const int groups = 1 + (config.dp > 1 ? 1 : 0) + (config.tp > 1 ? 1 : 0) +
                     (config.pp > 1 ? 2 : 0) + (config.cp > 1 ? 1 : 0) +
                     (config.ep > 1 ? 2 : 0);
  return framework.context_bytes + groups * framework.nccl_group_bytes;
}

double ExpertShards(const ParallelConfig& config) {
  return static_cast<double>(config.dp) * config.cp / config.ep;
}

// Elements on one rank of what ZeRO shards from `stage` on.
double Elements(const ParallelConfig& config,
                const StageMemory& memory,
                int stage) {
  const bool sharded = config.zero_stage >= stage;
  return memory.parameters / (sharded ? ShardRanks(config, memory) : 1.0) +
         memory.expert_parameters / (sharded ? ExpertShards(config) : 1.0);
}

double ParameterBytes(const ParallelConfig& config,
                      const StageMemory& stage,
                      double element_bytes,
                      const Framework& framework) {
  const bool masters_only = framework.fsdp && config.zero_stage == 3;
  return masters_only ? 0.0 : element_bytes * Elements(config, stage, 3);
}

// What ZeRO 3 has gathered: the module that computes and the next one. FSDP
// also holds the gradient of a whole module until it is scattered.
double GatheredBytes(const ParallelConfig& config,
                     const StageMemory& stage,
                     double element_bytes,
                     const Framework& framework) {
  if (config.zero_stage < 3) {
    return 0.0;
  }
  const double gradient =
      framework.fsdp ? framework.GradientBytes(element_bytes) : 0.0;
  return (2.0 * element_bytes + gradient) * stage.largest_module;
}

// Whole tensors of the tensor-parallel group that cannot be used again yet.
double PendingBytes(const ParallelConfig& config,
                    const StageMemory& stage,
                    const Framework& framework) {
  if (config.pp > 1) {
    return framework.pending_messages * stage.message_bytes;
  }
  // One microbatch: either its forward's or its backward's, not those of two
  // microbatches that follow each other.
  const double share = config.microbatches > 1 ? 1.0 : 0.5;
  return share * framework.pending_messages_unpiped * stage.message_bytes;
}

// Gradients of one microbatch on their way to the sums.
double ApartBytes(const StageMemory& stage,
                  double element_bytes,
                  const Framework& framework) {
  return framework.fp32_gradients && framework.gradients_apart
             ? element_bytes * (stage.parameters + stage.expert_parameters)
             : 0.0;
}

// Buffers of gradient reduction and parameter gathering, and of messages.
double BufferBytes(const ParallelConfig& config,
                   const StageMemory& stage,
                   double element_bytes,
                   const Framework& framework) {
  const double gradient_bytes = framework.GradientBytes(element_bytes);
  const double gradients =
      gradient_bytes * (stage.parameters + stage.expert_parameters);
  const double messages = config.pp > 1 ? 2.0 * stage.boundary_bytes : 0.0;
  if (config.dp == 1) {
    return messages;
  }
  if (config.zero_stage == 0) {
    // DDP copies gradients into buckets of its own; with a pipeline every
    // gradient is reduced in place, as sums in fp32 always are.
    return messages +
           (config.pp == 1 && !framework.fp32_gradients ? gradients : 0.0);
  }
  const double gathered =
      GatheredBytes(config, stage, element_bytes, framework);
  if (framework.fp32_gradients || (framework.fsdp && config.zero_stage == 3)) {
    return messages + gathered;
  }
  const double bucket = std::clamp(config.zero_bucket_mb * kMega,
                                   gradient_bytes * stage.largest_tensor,
                                   gradients);
  const int copies = config.overlap_zero_comm ? 2 : 1;
  return messages + copies * bucket + gathered;
}

}  // namespace

double ShardRanks(const ParallelConfig& config, const StageMemory& stage) {
  return config.zero_stage >= 2 && stage.shard_ranks > 0
             ? stage.shard_ranks
             : static_cast<double>(config.dp) * config.cp;
}

double StateBytes(const ParallelConfig& config,
                  const StageMemory& stage,
                  double element_bytes,
                  const Framework& framework) {
  const bool mixed = element_bytes < 4.0;
  return ParameterBytes(config, stage, element_bytes, framework) +
         (mixed ? 12.0 : 8.0) * Elements(config, stage, 1) +
         ContextBytes(config, framework);
}

MemoryParts ComputeMemory(const ParallelConfig& config,
                          const StageMemory& stage,
                          double element_bytes,
                          const Framework& framework) {
  const bool mixed = element_bytes < 4.0;
  MemoryParts states;
  states.parameters_bytes =
      ParameterBytes(config, stage, element_bytes, framework);
  states.optimizer_bytes = (mixed ? 12.0 : 8.0) * Elements(config, stage, 1);
  states.buffers_bytes = BufferBytes(config, stage, element_bytes, framework);
  states.pending_bytes = PendingBytes(config, stage, framework);
  states.working_bytes = framework.workspace_bytes;
  states.context_bytes = ContextBytes(config, framework);
  const double gradients =
      framework.GradientBytes(element_bytes) * Elements(config, stage, 2);

  // Backward, when the loss has just been computed. Sums in fp32 stand from
  // the beginning.
  MemoryParts backward = states;
  backward.activations_bytes = stage.activations_bytes;
  backward.logits_bytes = stage.logits_bytes;
  backward.working_bytes +=
      std::max(0.0, stage.working_bytes - stage.logits_bytes);
  backward.gradients_bytes =
      config.microbatches > 1 || framework.fp32_gradients ? gradients : 0.0;
  backward.gradients_bytes += ApartBytes(stage, element_bytes, framework);

  // The end of backward, and then the step with its fp32 gradients. Without
  // ZeRO each half-precision gradient is freed as it is copied.
  MemoryParts step = states;
  const double copies = mixed && !framework.fp32_gradients
                            ? 4.0 * Elements(config, stage, 1)
                            : 0.0;
  step.gradients_bytes =
      config.zero_stage == 0 ? std::max(gradients, copies) : gradients + copies;

  MemoryParts& peak = backward.Total() >= step.Total() ? backward : step;
  // Sums in fp32 never come and go.
  const double settled = framework.fp32_gradients ? gradients : 0.0;
  peak.allocator_bytes =
      framework.fragmentation *
      (peak.activations_bytes + peak.logits_bytes + peak.working_bytes +
       peak.buffers_bytes + peak.gradients_bytes - settled);
  return peak;
}

MemoryParts WhenFull(MemoryParts memory, double capacity_bytes) {
  if (memory.Total() > capacity_bytes) {
    memory.pending_bytes = 0.0;
  }
  return memory;
}

}  // namespace trials
