#include "trials/simulator/memory.h"

#include <algorithm>

namespace trials {
namespace {

// The parts of a rank's memory.
struct MemoryParts : RankMemory {
  [[nodiscard]] bool mixed() const { return element_bytes < 4.0; }

  [[nodiscard]] double ContextBytes() const {
    const int groups = 1 + (stage.dp > 1 ? 1 : 0) + (stage.tp > 1 ? 1 : 0) +
                       (shared.pp > 1 ? 2 : 0) + (shared.cp > 1 ? 1 : 0) +
                       (shared.ep > 1 ? 2 : 0);
    return framework.allocator.context_bytes +
           (framework.allocator.nccl_group_bytes > 0.0
                ? groups * framework.allocator.nccl_group_bytes
                : stage.channels * framework.allocator.nccl_channel_bytes);
  }

  // Elements of the state that ZeRO shards from `zero_stage` on.
  [[nodiscard]] double Elements(int zero_stage) const {
    const bool sharded = shared.zero_stage >= zero_stage;
    const double share =
        zero_stage == 1 ? OptimizerShare() : 1.0 / ShardRanks();
    return stage.parameters * (sharded ? share : 1.0) +
           stage.expert_parameters / (sharded ? stage.expert_ranks : 1.0);
  }

  [[nodiscard]] bool Offloads(Offloaded what) const {
    return stage.training.Offloads(what);
  }

  // On the GPU, or on the host.
  [[nodiscard]] double ParameterBytes() const {
    const double bytes = framework.optimizer.parameter_bytes;
    return FrozenBytes() +
           (behavior.masters_only
                ? 0.0
                : (bytes > 0.0 ? bytes : element_bytes) * Elements(3));
  }

  [[nodiscard]] double FrozenBytes() const {
    const bool sharded = shared.zero_stage >= 3;
    return (stage.frozen_bytes - stage.frozen_expert_bytes) /
               (sharded ? ShardRanks() : 1.0) +
           stage.frozen_expert_bytes / (sharded ? stage.expert_ranks : 1.0);
  }

  // fp32 master weights and two moments.
  [[nodiscard]] double OptimizerBytes() const {
    constexpr double kMoments = 8.0;  // of AdamW
    const double state =
        (mixed() ? framework.optimizer.optimizer_state_bytes : kMoments) +
        stage.training.moment_bytes - kMoments;
    return std::max(0.0, state) * Elements(1);
  }

  // Those that the driver moves to the host when the GPU is full.
  [[nodiscard]] double PagedBytes() const {
    return stage.training.paged && !Offloads(Offloaded::kOptimizer)
               ? stage.training.moment_bytes * Elements(1)
               : 0.0;
  }

  [[nodiscard]] double GradientBytes() const {
    if (Offloads(Offloaded::kOptimizer)) {
      return 0.0;
    }
    if (behavior.holds_whole_gradients) {
      return framework.GradientBytes(element_bytes) *
             (stage.parameters + stage.expert_parameters);
    }
    return (behavior.fp32_shards ? 4.0
                                 : framework.GradientBytes(element_bytes)) *
           Elements(2);
  }

  // Temporary gradients of the optimizer's step.
  [[nodiscard]] double StepCopyBytes() const {
    if (!mixed() || framework.gradients.fp32_gradients ||
        behavior.fp32_shards || Offloads(Offloaded::kOptimizer) ||
        framework.optimizer.optimizer_state_bytes < 12.0) {
      return 0.0;
    }
    const double flat =
        framework.gradients.flat_gradients ? element_bytes : 0.0;
    return (4.0 + flat) * Elements(1);
  }

  // Parameters that ZeRO 3 has gathered: the running module and the next one.
  // FSDP also holds the gradient of a whole module until it is scattered.
  [[nodiscard]] double GatheredBytes() const {
    if (shared.zero_stage < 3 && !Offloads(Offloaded::kParameters)) {
      return 0.0;
    }
    if (behavior.keeps_gathered) {
      return element_bytes * (stage.parameters + stage.expert_parameters) +
             stage.frozen_bytes;
    }
    return stage.gathered_bytes;
  }

  // Tensor-parallel buffers that are freed but cannot be reused yet.
  [[nodiscard]] double PendingBytes() const {
    if (shared.pp > 1) {
      return framework.allocator.pending_messages * stage.collective_bytes;
    }
    // One microbatch: the buffers of its forward or of its backward, but not of
    // two microbatches that follow each other.
    const double share = shared.microbatches > 1 ? 1.0 : 0.5;
    return share * framework.allocator.pending_messages_unpiped *
           stage.collective_bytes;
  }

  // Gradients of one microbatch before they are added to the sums.
  [[nodiscard]] double SeparateGradientBytes() const {
    return framework.gradients.fp32_gradients &&
                   framework.gradients.gradients_apart
               ? element_bytes * (stage.parameters + stage.expert_parameters)
               : 0.0;
  }

  // Buffers of gradient reduction, of parameter all-gathers and of the
  // pipeline.
  [[nodiscard]] double BufferBytes() const {
    const double gradient_bytes = framework.GradientBytes(element_bytes);
    const double gradients =
        gradient_bytes * (stage.parameters + stage.expert_parameters);
    double messages = stage.placeholder_bytes;
    messages += shared.pp > 1 ? 2.0 * stage.boundary_bytes : 0.0;
    if (stage.dp * shared.cp == 1) {
      return messages +
             (Offloads(Offloaded::kParameters) ? GatheredBytes() : 0.0);
    }
    if (shared.zero_stage > 0 && shared.zero_stage < 3) {
      messages +=
          element_bytes *
          std::min(framework.sharding.gather_buffer_elements, stage.parameters);
    }
    if (framework.sharding.reduce_buffer_elements > 0.0 &&
        shared.zero_stage < 3) {
      return messages + std::min(gradient_bytes *
                                     framework.sharding.reduce_buffer_elements,
                                 gradients);
    }
    if (shared.zero_stage == 0) {
      // DDP copies gradients into buckets of its own; with a pipeline every
      // gradient is reduced in place, as sums in fp32 always are.
      return messages + (shared.pp == 1 && !framework.gradients.fp32_gradients
                             ? gradients
                             : 0.0);
    }
    const double gathered = GatheredBytes();
    if (framework.gradients.fp32_gradients || behavior.masters_only) {
      return messages + gathered;
    }
    const double bucket =
        std::clamp(framework.ZeroBucketBytes(shared.zero_bucket_mb),
                   gradient_bytes * stage.largest_tensor, gradients);
    const int copies = shared.overlap_zero_comm ? 2 : 1;
    return messages + copies * bucket + gathered;
  }
};

}  // namespace

double RankMemory::ShardRanks() const {
  return behavior.in_groups && stage.shard_ranks > 0
             ? stage.shard_ranks
             : static_cast<double>(stage.dp) * shared.cp;
}

double RankMemory::ExpertShardRanks() const {
  return std::max(1.0, ShardRanks() * stage.expert_ranks /
                           (static_cast<double>(stage.dp) * shared.cp));
}

double RankMemory::OptimizerShare() const {
  const double even = 1.0 / ShardRanks();
  return framework.sharding.broadcast_parameters && stage.parameters > 0.0
             ? std::max(even, stage.largest_tensor / stage.parameters)
             : even;
}

double RankMemory::StateBytes() const {
  const MemoryParts rank{*this};
  return (rank.Offloads(Offloaded::kParameters) ? 0.0 : rank.ParameterBytes()) +
         (rank.Offloads(Offloaded::kOptimizer)
              ? 0.0
              : rank.OptimizerBytes() - rank.PagedBytes()) +
         rank.ContextBytes();
}

double RankMemory::HostBytes() const {
  constexpr double kGradient = 4.0;
  const MemoryParts rank{*this};
  return (rank.Offloads(Offloaded::kOptimizer)
              ? rank.OptimizerBytes() + kGradient * rank.Elements(1)
              : 0.0) +
         (rank.Offloads(Offloaded::kParameters) ? rank.ParameterBytes() : 0.0);
}

MemoryBreakdown RankMemory::Peak() const {
  const MemoryParts rank{*this};
  MemoryBreakdown states;
  if (!rank.Offloads(Offloaded::kParameters)) {
    states.parameters_bytes = rank.ParameterBytes();
  }
  if (!rank.Offloads(Offloaded::kOptimizer)) {
    states.optimizer_bytes = rank.OptimizerBytes() - rank.PagedBytes();
  }
  states.buffers_bytes = rank.BufferBytes();
  states.pending_bytes = rank.PendingBytes() + rank.PagedBytes();
  states.working_bytes = framework.allocator.workspace_bytes;
  states.context_bytes = rank.ContextBytes();
  const double gradients = rank.GradientBytes();
  const double copies = rank.StepCopyBytes();

  // Backward, when the loss has just been computed. Sums in fp32
  // exist from the beginning.
  MemoryBreakdown backward = states;
  backward.activations_bytes = stage.activations_bytes;
  backward.logits_bytes = stage.logits_bytes;
  backward.working_bytes +=
      std::max(0.0, stage.working_bytes - stage.logits_bytes);
  backward.gradients_bytes =
      shared.microbatches > 1 || framework.gradients.fp32_gradients ? gradients
                                                                    : 0.0;
  backward.gradients_bytes += rank.SeparateGradientBytes();

  // The optimizer's step with its fp32 gradients. Without ZeRO each
  // half-precision gradient is freed when it is copied.
  MemoryBreakdown step = states;
  step.gradients_bytes =
      shared.zero_stage == 0 && !framework.gradients.flat_gradients
          ? std::max(gradients, copies)
          : gradients + copies;

  MemoryBreakdown& peak = backward.Total() >= step.Total() ? backward : step;
  if (framework.gradients.flat_gradients) {
    // The allocator keeps what the other peak needs.
    peak.pending_bytes += std::min(
        copies, backward.Total() - states.Total() - backward.gradients_bytes);
  }
  // Sums in fp32 are allocated once.
  const double settled = framework.gradients.fp32_gradients ? gradients : 0.0;
  peak.allocator_bytes =
      framework.allocator.fragmentation *
      (peak.activations_bytes + peak.logits_bytes + peak.working_bytes +
       peak.buffers_bytes + peak.gradients_bytes - settled);
  return peak;
}

MemoryBreakdown WhenFull(MemoryBreakdown memory, double capacity_bytes) {
  if (memory.Total() > capacity_bytes) {
    memory.pending_bytes = 0.0;
  }
  return memory;
}

}  // namespace trials
