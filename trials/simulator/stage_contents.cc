#include "trials/simulator/stage_contents.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "trials/simulator/pipeline.h"

namespace trials {
namespace {

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
  const LayerCosts& layers = stage.layers;
  const auto sum = [&](double LayerCost::*field) {
    return SumOfBlocks(layers, chunk.blocks - chunk.recomputed,
                       std::max(0, chunk.dense - chunk.recomputed), field);
  };
  const double kept =
      sum(&LayerCost::saved_bytes) -
      (chunk.selective ? sum(&LayerCost::selective_bytes) : 0.0);
  return chunk.recomputed * layers.boundary_bytes + kept +
         SumOfEnds(layers, chunk, &LayerCost::saved_bytes) +
         (chunk.last || !stage.problem.framework.pipeline.keep_outputs
              ? 0.0
              : layers.boundary_bytes);
}

void AddMemory(const StageContext& stage, const std::vector<Chunk>& chunks,
               StageMemory& memory) {
  const ParallelConfig& shared = stage.plan.shared;
  const auto s = static_cast<std::size_t>(stage.stage);
  const LayerCosts& layers = stage.layers;
  std::vector<double> saved_bytes;
  double recomputed_bytes = 0.0;
  LayerCost dense;  // of this stage; nothing without such blocks
  for (std::size_t v = s; v < chunks.size(); v += stage.plan.stages.size()) {
    const Chunk& chunk = chunks[v];
    saved_bytes.push_back(SavedBytes(stage, chunk));
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

}  // namespace

double SharedTableElements(const StageContext& stage) {
  const Model& model = stage.problem.workload.model;
  if (!model.tied_embeddings || stage.plan.shared.pp == 1 || model.pooler) {
    return 0.0;
  }
  const int tp = stage.plan.stages[stage.stage].tp;
  return static_cast<double>(model.vocab_size) * model.hidden_size / tp;
}

void AddContents(const StageContext& stage, const std::vector<Chunk>& chunks,
                 const std::vector<TimeBreakdown>& backward, StageCost& cost) {
  const std::size_t stages = stage.plan.stages.size();
  for (std::size_t c = chunks.size() / stages; c-- > 0;) {
    const std::size_t v = c * stages + static_cast<std::size_t>(stage.stage);
    AddModules(stage, chunks[v], backward[v].Total(), cost);
  }
  AddMemory(stage, chunks, cost.memory);
  AddOptimizer(stage, cost);
}

}  // namespace trials
