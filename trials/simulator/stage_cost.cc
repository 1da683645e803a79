#include "trials/simulator/stage_cost.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "trials/simulator/collectives.h"
#include "trials/simulator/pipeline.h"
#include "trials/simulator/topology.h"

namespace trials {
namespace {

// Elements of the embedding table on one rank of the stage, if first and last
// stage both hold it (tied weights and a pipeline); otherwise 0.
double SharedTableElements(const StageContext& stage) {
  const Model& model = stage.problem.workload.model;
  if (!model.tied_embeddings || stage.plan.shared.pp == 1 || model.pooler) {
    return 0.0;
  }
  const int tp = stage.plan.stages[stage.stage].tp;
  return static_cast<double>(model.vocab_size) * model.hidden_size / tp;
}

// Adds `count` modules whose backward takes `backward_s` each.
void AddModule(const StageContext& stage, const LayerCost& layer,
               double backward_s, int count, StageCost& cost) {
  const double bytes =
      stage.problem.framework.GradientBytes(stage.gpu.element_bytes());
  StageMemory& memory = cost.memory;
  // Tensors in the order of backward, as gradients of `module`.
  const auto add = [&](const std::vector<double>& tensors, SyncModule& module,
                       double& parameters) {
    for (auto it = tensors.rbegin(); it != tensors.rend(); ++it) {
      module.tensor_bytes.push_back(*it * bytes);
      memory.largest_tensor = std::max(memory.largest_tensor, *it);
      parameters += count * *it;
    }
  };
  SyncModule module;
  module.backward_s = backward_s;
  module.count = count;
  SyncModule experts = module;
  const bool separate = stage.plan.shared.ep > 1;
  add(layer.expert_parameters, separate ? experts : module,
      separate ? memory.expert_parameters : memory.parameters);
  add(layer.parameters, module, memory.parameters);
  memory.largest_module =
      std::max(memory.largest_module, layer.ParameterCount());
  cost.modules.push_back(std::move(module));
  if (!experts.tensor_bytes.empty()) {
    cost.expert_modules.push_back(std::move(experts));
  }
}

// Adds the modules of a chunk from the last to the first. Its blocks share the
// time of the action that head and embedding leave.
void AddModules(const StageContext& stage, const Chunk& chunk, double action_s,
                StageCost& cost) {
  const LayerCosts& layers = stage.layers;
  const double head_s = chunk.last ? layers.head.backward_s : 0.0;
  const double embedding_s = chunk.first ? layers.embedding.backward_s : 0.0;
  const double block_s =
      (action_s - head_s - embedding_s) / std::max(1, chunk.blocks);
  if (chunk.last) {
    AddModule(stage, layers.head, head_s, 1, cost);
    const double elements = SharedTableElements(stage);
    if (elements > 0.0) {  // the last stage's copy
      LayerCost table;
      table.parameters = {elements};
      AddModule(stage, table, 0.0, 1, cost);
    }
  }
  if (chunk.blocks > chunk.dense) {
    AddModule(stage, layers.block, block_s, chunk.blocks - chunk.dense, cost);
  }
  if (chunk.dense > 0) {
    AddModule(stage, layers.dense_block, block_s, chunk.dense, cost);
  }
  if (chunk.first) {
    AddModule(stage, layers.embedding, embedding_s, 1, cost);
  }
}

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

void AddMemory(const StageContext& stage, const std::vector<Chunk>& chunks,
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
  memory.dp = stage.plan.stages[s].dp;
  memory.tp = stage.plan.stages[s].tp;
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
  memory.shard_ranks = stage.links.shards.within.size;
  memory.expert_ranks = stage.links.expert_dp.size;
}

// Adam reads and writes fp32 weight and moments; in mixed precision it also
// copies gradient and weight between the two precisions.
void AddOptimizer(const StageContext& stage, StageCost& cost) {
  for (const auto* modules : {&cost.modules, &cost.expert_modules}) {
    for (const SyncModule& module : *modules) {
      cost.tensors +=
          module.count * static_cast<int>(module.tensor_bytes.size());
    }
  }
  const GpuModel& gpu = stage.gpu;
  const bool mixed = gpu.element_bytes() < 4.0;
  const double bytes =
      mixed ? stage.problem.framework.optimizer.optimizer_bytes : 28.0;
  cost.optimizer_s = gpu.MemoryTime(bytes * cost.memory.parameters);
  cost.expert_optimizer_s =
      cost.expert_modules.empty()
          ? 0.0
          : gpu.MemoryTime(bytes * cost.memory.expert_parameters);
}

// Adds the modules of a stage, their optimizer and the memory to its cost.
// Shapes: chunks and backward (their actions) [pp * model_chunks].
void AddContents(const StageContext& stage, const std::vector<Chunk>& chunks,
                 const std::vector<TimeBreakdown>& backward, StageCost& cost) {
  const std::size_t stages = stage.plan.stages.size();
  for (std::size_t c = chunks.size() / stages; c-- > 0;) {
    const std::size_t v = c * stages + stage.stage;
    AddModules(stage, chunks[v], backward[v].Total(), cost);
  }
  AddMemory(stage, chunks, cost.memory);
  AddOptimizer(stage, cost);
}

// Time of the hidden states from a stage to the next one, or of their gradients
// back.
double SendTime(const StageContext& from, int to, const GroupLink& link,
                const std::vector<Resharding>& reshardings) {
  const ParallelConfig& shared = from.plan.shared;
  const double overhead_s =
      shared.model_chunks > 1 && shared.overlap_p2p
          ? 0.0  // issued during computation
          : from.problem.framework.pipeline.p2p_overhead_s;
  const double rank_bytes = from.layers.boundary_bytes;
  if (!Resharded(from.plan, from.stage, to)) {
    return MessageTime(link, rank_bytes) + overhead_s;
  }
  const PlanStage& stage = from.plan.stages[from.stage];
  const double bytes = rank_bytes * stage.dp *
                       (SplitsTokens(from.plan, from.stage) ? stage.tp : 1);
  const Resharding& moved = reshardings[from.stage];
  return moved.latency_s + moved.seconds_per_byte * bytes + overhead_s;
}

void AddTransfers(const std::vector<StageContext>& stages,
                  const PlanLinks& links, PipelineTimes& times) {
  const ParallelConfig& shared = stages.front().plan.shared;
  for (const StageContext& stage : stages) {
    const int s = stage.stage;
    const int next = (s + 1) % shared.pp;
    const bool used = shared.pp > 1;  // a stage sends nothing to itself
    times.send_forward_s.push_back(
        used ? SendTime(stage, next, links.forward[s], links.forward_resharding)
             : 0.0);
    times.send_backward_s.push_back(used ? SendTime(stage, next,
                                                    links.backward[s],
                                                    links.backward_resharding)
                                         : 0.0);
  }
  times.overlap = shared.model_chunks > 1 && shared.overlap_p2p;
}

// A receive of NCCL that is issued during computation waits for its message on
// the GPU, where thread blocks of channels keep multiprocessors busy. Neighbors
// are not in step: in the mean it waits for half of an action.
void AddPendingReceives(const std::vector<StageContext>& stages,
                        const std::vector<Chunk>& chunks,
                        std::vector<TimeBreakdown>& actions,
                        std::vector<double>& times_s) {
  constexpr double kChannels = 2.0;  // NCCL's fewest for a pair of ranks
  for (std::size_t v = 0; v < actions.size(); ++v) {
    const StageContext& stage = stages[chunks[v].stage];
    TimeBreakdown& time = actions[v];
    const double slowdown_s = 0.5 * kChannels / stage.gpu.multiprocessors() *
                              (time.Total() - time.overhead_s);
    time.pipeline_s += slowdown_s;
    times_s[v] += slowdown_s;
  }
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

// All-reduce of the embedding table that first and last stage share.
double SharedTableTime(const std::vector<StageContext>& stages,
                       const PlanLinks& links) {
  const StageContext& first = stages.front();
  const double elements =
      std::max(SharedTableElements(first), SharedTableElements(stages.back()));
  const double bytes =
      first.problem.framework.GradientBytes(first.gpu.element_bytes());
  return elements == 0.0 ? 0.0 : AllReduceTime(links.ends, elements * bytes);
}

}  // namespace

std::vector<StageCost> ComputeStageCosts(
    const std::vector<StageContext>& stages, const PlanLinks& links) {
  const Plan& plan = stages.front().plan;
  const ParallelConfig& shared = plan.shared;
  const std::vector<Chunk> chunks =
      ChunksOf(plan, stages.front().problem.workload.model.dense_layers);
  std::vector<TimeBreakdown> forward;
  std::vector<TimeBreakdown> backward;
  PipelineTimes times;
  const PipelineShape shape = PipelineOf(stages.front());
  for (const Chunk& chunk : chunks) {
    const StageContext& stage = stages[chunk.stage];
    forward.push_back(ForwardTime(stage, chunk));
    backward.push_back(BackwardTime(stage, chunk));
    times.forward_s.push_back(forward.back().Total());
    times.backward_s.push_back(backward.back().Total());
    if (shape.zero_bubble) {
      times.weights_s.push_back(WeightsTime(stage, chunk));
      times.backward_s.back() -= times.weights_s.back();
    }
  }
  AddTransfers(stages, links, times);
  const Framework& framework = stages.front().problem.framework;
  if (times.overlap && framework.allocator.nccl_channel_bytes > 0.0) {
    AddPendingReceives(stages, chunks, forward, times.forward_s);
    AddPendingReceives(stages, chunks, backward, times.backward_s);
  }
  const std::vector<StageTimeline> timelines = RunPipeline(shape, times);

  std::vector<StageCost> costs(stages.size());
  for (std::size_t s = 0; s < costs.size(); ++s) {
    StageCost& cost = costs[s];
    for (std::size_t v = s; v < chunks.size(); v += costs.size()) {
      cost.time.Add(shared.microbatches, forward[v]);
      cost.time.Add(shared.microbatches, backward[v]);
    }
    cost.time.pipeline_s += timelines[s].transfer_s;
    cost.time.bubble_s = timelines[s].bubble_s;
    cost.begin_s = timelines[s].begin_s;
    cost.end_s = timelines[s].end_s;
    cost.first_forward_s = times.forward_s[s];
    cost.tensor_share = times.backward_s[s] > 0.0
                            ? backward[s].tensor_s / times.backward_s[s]
                            : 0.0;
    cost.links = links.stages[s];
    cost.gpu_type = plan.stages[s].gpu_type;
    AddContents(stages[s], chunks, backward, cost);
    cost.memory.channels = Channels(stages[s], links.forward[s]);
  }
  costs.front().shared_table_s = costs.back().shared_table_s =
      SharedTableTime(stages, links);
  return costs;
}

ParallelConfig StageCostKnobs(ParallelConfig config) {
  const ParallelConfig defaults;
  config.micro_batch_size = defaults.micro_batch_size;  // follows from others
  config.dp_bucket_mb = defaults.dp_bucket_mb;
  if (config.zero_stage < 3) {
    config.zero_stage = defaults.zero_stage;
    config.zero_bucket_mb = defaults.zero_bucket_mb;
    config.overlap_zero_comm = defaults.overlap_zero_comm;
    config.overlap_zero_allgather = defaults.overlap_zero_allgather;
  }
  return config;
}

}  // namespace trials
