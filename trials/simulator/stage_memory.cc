#include "trials/simulator/stage_memory.h"

#include <algorithm>
#include <cstddef>

#include "common/ranges.h"
#include "trials/simulator/pipeline.h"
#include "trials/simulator/topology.h"

namespace trials {
namespace {

// Bytes that a chunk keeps of one microbatch.
double SavedBytes(const StageContext& stage, const Chunk& chunk) {
  const ChunkSums sums{stage.layers, chunk};
  const double boundary_bytes = stage.layers.boundary_bytes;
  const double kept =
      sums.Kept(&LayerCost::saved_bytes) -
      (chunk.selective ? sums.Kept(&LayerCost::selective_bytes) : 0.0);
  return chunk.recomputed * boundary_bytes + kept +
         sums.Ends(&LayerCost::saved_bytes) +
         (chunk.last || !stage.problem.framework.pipeline.keep_outputs
              ? 0.0
              : boundary_bytes);
}

// Adds what microbatches need.
void AddActivations(const StageContext& stage, const std::vector<Chunk>& chunks,
                    StageMemory& memory) {
  const ParallelConfig& shared = stage.plan.shared;
  const int s = stage.stage;
  const LayerCosts& layers = stage.layers;
  std::vector<double> saved_bytes;
  double recomputed_bytes = 0.0;
  LayerCost dense;  // of this stage; nothing without such blocks
  for (std::size_t v = s; v < chunks.size(); v += stage.plan.stages.size()) {
    const Chunk& chunk = chunks[v];
    saved_bytes.push_back(SavedBytes(stage, chunk));
    const ChunkSums sums{layers, chunk};
    memory.collectives += (sums.All(&LayerCost::forward_collectives) +
                           sums.All(&LayerCost::backward_collectives))
                              .Count();
    if (chunk.dense > 0) {
      dense = layers.dense_block;
    }
    if (chunk.recomputed > 0) {
      recomputed_bytes = std::max(layers.block.saved_bytes, dense.saved_bytes);
    } else if (chunk.selective) {
      recomputed_bytes =
          std::max({recomputed_bytes, layers.block.selective_bytes,
                    dense.selective_bytes});
    }
  }
  memory.activations_bytes =
      PeakActivationBytes(PipelineOf(stage), stage.stage, saved_bytes);
  memory.logits_bytes =
      stage.stage == shared.pp - 1 ? layers.head.logits_bytes : 0.0;
  memory.working_bytes =
      std::max(layers.block.working_bytes, dense.working_bytes) +
      recomputed_bytes;
  memory.boundary_bytes = layers.boundary_bytes;
  memory.placeholder_bytes =
      layers.block.placeholder_bytes + dense.placeholder_bytes +
      (stage.stage == shared.pp - 1 ? layers.head.placeholder_bytes : 0.0);
  memory.collective_bytes = layers.block.collective_bytes;
}

// NCCL's channels in the communicators of a rank: of all ranks, of each group,
// and two of the pipeline.
double Channels(const StageContext& stage, const GroupLink& forward) {
  const Cluster& cluster =
      stage.problem.gpu_types[stage.plan.stages[stage.stage].gpu_type];
  double channels =
      NcclChannels(cluster.RingBytesPerSecond(cluster.gpus_per_node));
  for (const GroupLink* link :
       {&stage.links.tp, &stage.links.dp, &stage.links.cp, &stage.links.ep,
        &stage.links.ep}) {
    channels += link->size > 1 ? NcclChannels(link->bandwidth_bytes_per_s) : 0;
  }
  return channels + (stage.plan.stages.size() > 1
                         ? 2 * NcclChannels(forward.bandwidth_bytes_per_s)
                         : 0);
}

}  // namespace

double SharedTableElements(const StageContext& stage) {
  const Model& model = stage.problem.workload.model;
  if (!model.tied_embeddings || stage.plan.shared.pp == 1 || model.pooler) {
    return 0.0;
  }
  const int tp = stage.plan.stages[stage.stage].tp;
  return static_cast<double>(model.vocab_size) * model.hidden_size / tp;
}

StageMemory ParametersOfStage(const StageContext& stage,
                              const std::vector<Chunk>& chunks) {
  const PlanStage& own = stage.plan.stages[stage.stage];
  StageMemory memory;
  memory.dp = own.dp;
  memory.tp = own.tp;
  memory.gpu_type = own.gpu_type;
  const Training& training = stage.problem.workload.training;
  memory.training = training;
  const Framework& framework = stage.problem.framework;
  const double e = stage.gpu.element_bytes();
  const double rest_bytes = training.RestBytes(e);
  const double gradient_bytes =
      BehaviorOf(framework, stage.plan.shared).by_module
          ? framework.GradientBytes(e)
          : 0.0;
  const double frozen_bytes = training.FrozenBytes(e);
  const bool separate = stage.plan.shared.ep > 1;
  const auto add = [&](ModuleKind, const LayerCost& layer, int count) {
    const auto sum = [&](const std::vector<double>& tensors, double& elements) {
      for (auto it = tensors.rbegin(); it != tensors.rend(); ++it) {
        memory.largest_tensor = std::max(memory.largest_tensor, *it);
        elements += count * *it;
      }
    };
    sum(layer.expert_parameters,
        separate ? memory.expert_parameters : memory.parameters);
    sum(layer.parameters, memory.parameters);
    const double own_frozen_bytes =
        frozen_bytes * (layer.frozen - layer.frozen_ends) +
        rest_bytes * layer.frozen_ends;
    memory.frozen_bytes += count * own_frozen_bytes;
    memory.frozen_expert_bytes +=
        separate ? count * frozen_bytes * layer.frozen_experts : 0.0;
    if (training.reference_model && training.lora_rank == 0) {
      memory.frozen_bytes += count * e * layer.ParameterCount();
    }
    memory.largest_module =
        std::max(memory.largest_module, layer.ParameterCount());
    const double trained = layer.ParameterCount() - layer.frozen;
    memory.gathered_bytes =
        std::max(memory.gathered_bytes, 2.0 * (e * trained + own_frozen_bytes) +
                                            gradient_bytes * trained);
  };
  const std::size_t stages = stage.plan.stages.size();
  for (std::size_t c = chunks.size() / stages; c-- > 0;) {
    ForEachModule(stage, chunks[c * stages + stage.stage], add);
  }
  return memory;
}

StageMemory MemoryOfStage(const StageContext& stage,
                          const std::vector<Chunk>& chunks,
                          const GroupLink& forward) {
  StageMemory memory = ParametersOfStage(stage, chunks);
  AddActivations(stage, chunks, memory);
  memory.shard_ranks = stage.links.shards.within.size;
  memory.expert_ranks = stage.links.expert_dp.size;
  memory.first_rank = stage.links.first_rank;
  memory.channels = Channels(stage, forward);
  return memory;
}

std::vector<StageMemory> MemoryOfStages(const std::vector<StageContext>& stages,
                                        const PlanLinks& links) {
  const StageContext& first = stages.front();
  const std::vector<Chunk> chunks =
      ChunksOf(first.plan, first.problem.workload.model.dense_layers);
  return common::Map(stages, [&](const StageContext& stage) {
    return MemoryOfStage(stage, chunks, links.forward[stage.stage]);
  });
}

void AddPeak(const Problem& problem, const ParallelConfig& shared,
             const ShardingBehavior& behavior, const StageMemory& stage,
             bool first, MemoryReport& report) {
  const Framework::Allocator& allocator = problem.framework.allocator;
  const Gpu& gpu = problem.gpu_types[stage.gpu_type].gpu;
  const RankMemory rank{shared, stage,
                        problem.gpus[stage.gpu_type].element_bytes(),
                        problem.framework, behavior};
  const double capacity = allocator.usable_memory * gpu.memory_bytes;
  const MemoryBreakdown wanted = rank.Peak();
  const MemoryBreakdown memory = WhenFull(wanted, capacity);
  if (first) {
    report = {.first_stage_memory = memory, .model_states_fit = true};
  }
  report.host_bytes += rank.HostBytes() * stage.dp * stage.tp * shared.cp;
  if (wanted.Total() > allocator.allocator_pressure * gpu.memory_bytes) {
    const double buffers_bytes = stage.collectives * stage.collective_bytes;
    report.retry_s = std::max(
        report.retry_s, shared.microbatches * (allocator.allocator_retry_s +
                                               allocator.allocator_remap_s *
                                                   stage.tp * buffers_bytes));
  }
  report.last_stage_memory = memory;
  const double total = memory.Total();
  if (first ||
      total * report.capacity_bytes > report.peak_memory_bytes * capacity) {
    report.peak_memory_bytes = total;
    report.capacity_bytes = capacity;
    report.memory = memory;
    report.peak_rank = problem.FirstRank(stage.gpu_type, stage.first_rank);
    report.fits = total <= capacity;
  }
  if (rank.StateBytes() > capacity) {
    report.model_states_fit = false;
  }
}

MemoryReport PeakOf(const Problem& problem, const ParallelConfig& shared,
                    const std::vector<StageMemory>& stages) {
  const ShardingBehavior behavior = BehaviorOf(problem.framework, shared);
  MemoryReport report;
  for (const StageMemory& stage : stages) {
    AddPeak(problem, shared, behavior, stage, &stage == &stages.front(),
            report);
  }
  return report;
}

}  // namespace trials
