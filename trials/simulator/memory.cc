#include "trials/simulator/memory.h"

#include <algorithm>

namespace trials {
namespace {

// Bytes of one mebibyte of a bucket knob.
constexpr double kMega = 1024.0 * 1024.0;

double ContextBytes(const ParallelConfig& config, const Framework& framework) {
  const int groups = 1 + (config.dp > 1 ? 1 : 0) + (config.tp > 1 ? 1 : 0) +
                     (config.pp > 1 ? 2 : 0);
  return framework.context_bytes + groups * framework.nccl_group_bytes;
}

// Buffers of gradient reduction and parameter gathering, and of messages.
double BufferBytes(const ParallelConfig& config,
                   const StageMemory& stage,
                   double element_bytes) {
  const double gradients = element_bytes * stage.parameters;
  const double messages = config.pp > 1 ? 2.0 * stage.boundary_bytes : 0.0;
  if (config.dp == 1) {
    return messages;
  }
  if (config.zero_stage == 0) {
    // DDP copies gradients into buckets of its own; with a pipeline every
    // gradient is reduced in place.
    return messages + (config.pp == 1 ? gradients : 0.0);
  }
  const double bucket = std::clamp(config.zero_bucket_mb * kMega,
                                   element_bytes * stage.largest_tensor,
                                   gradients);
  const int copies = config.overlap_zero_comm ? 2 : 1;
  const double gathered =
      config.zero_stage == 3 ? 2.0 * element_bytes * stage.largest_module : 0.0;
  return messages + copies * bucket + gathered;
}

}  // namespace

double StateBytes(const ParallelConfig& config,
                  const StageMemory& stage,
                  double element_bytes,
                  const Framework& framework) {
  const bool mixed = element_bytes < 4.0;
  const double optimizer = (mixed ? 12.0 : 8.0) * stage.parameters;
  const double parameters = element_bytes * stage.parameters;
  return parameters / (config.zero_stage == 3 ? config.dp : 1) +
         optimizer / (config.zero_stage >= 1 ? config.dp : 1) +
         ContextBytes(config, framework);
}

MemoryParts ComputeMemory(const ParallelConfig& config,
                          const StageMemory& stage,
                          double element_bytes,
                          const Framework& framework) {
  const bool mixed = element_bytes < 4.0;
  const double elements = stage.parameters;
  const double shards = config.dp;
  MemoryParts states;
  states.parameters_bytes =
      element_bytes * elements / (config.zero_stage == 3 ? shards : 1.0);
  states.optimizer_bytes =
      (mixed ? 12.0 : 8.0) * elements / (config.zero_stage >= 1 ? shards : 1.0);
  states.buffers_bytes = BufferBytes(config, stage, element_bytes);
  states.context_bytes = ContextBytes(config, framework);
  const double gradients =
      element_bytes * elements / (config.zero_stage >= 2 ? shards : 1.0);

  // Backward, when the loss has just been computed.
  MemoryParts backward = states;
  backward.activations_bytes = stage.activations_bytes;
  backward.logits_bytes = stage.logits_bytes;
  backward.working_bytes =
      std::max(0.0, stage.working_bytes - stage.logits_bytes);
  backward.gradients_bytes = config.microbatches > 1 ? gradients : 0.0;

  // The end of backward, and then the step with its fp32 gradients. Without
  // ZeRO each half-precision gradient is freed as it is copied.
  MemoryParts step = states;
  const double copies =
      mixed ? 4.0 * elements / (config.zero_stage >= 1 ? shards : 1.0) : 0.0;
  step.gradients_bytes =
      config.zero_stage == 0 ? std::max(gradients, copies) : gradients + copies;

  MemoryParts& peak = backward.Total() >= step.Total() ? backward : step;
  peak.allocator_bytes =
      framework.fragmentation *
      (peak.activations_bytes + peak.logits_bytes + peak.working_bytes +
       peak.buffers_bytes + peak.gradients_bytes);
  return peak;
}

}  // namespace trials
