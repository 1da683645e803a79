// What the ranks of a stage hold.

#pragma once

#include <vector>

#include "trials/simulator/action_time.h"
#include "trials/simulator/memory.h"

namespace trials {

// Elements of the embedding table on one rank of the stage, if first and last
// stage both hold it (tied weights and a pipeline); otherwise 0.
[[nodiscard]] double SharedTableElements(const StageContext& stage);

// The kinds of module of a stage; kTable is the last stage's copy of a shared
// embedding table.
enum class ModuleKind { kHead, kTable, kBlock, kEmbedding };

// Calls visit(kind, layer, count) for the modules of a chunk from the last to
// the first, as backward reaches them; `count` modules of a kind are alike.
template <typename Visit>
void ForEachModule(const StageContext& stage, const Chunk& chunk,
                   const Visit& visit) {
  const LayerCosts& layers = stage.layers;
  if (chunk.last) {
    visit(ModuleKind::kHead, layers.head, 1);
    if (const double elements = SharedTableElements(stage); elements > 0.0) {
      LayerCost table;
      if (layers.embedding.parameters.empty()) {
        table.frozen = table.frozen_ends = elements;
      } else {
        table.parameters = {elements};
      }
      visit(ModuleKind::kTable, table, 1);
    }
  }
  if (chunk.blocks > chunk.dense) {
    visit(ModuleKind::kBlock, layers.block, chunk.blocks - chunk.dense);
  }
  if (chunk.dense > 0) {
    visit(ModuleKind::kBlock, layers.dense_block, chunk.dense);
  }
  if (chunk.first) {
    visit(ModuleKind::kEmbedding, layers.embedding, 1);
  }
}

// The parameters of a stage, and nothing that depends on its links or on
// microbatches. Shapes: chunks of all stages [pp * model_chunks].
[[nodiscard]] StageMemory ParametersOfStage(const StageContext& stage,
                                            const std::vector<Chunk>& chunks);

// Everything that a rank of a stage holds. `forward`: the link to the next
// stage.
[[nodiscard]] StageMemory MemoryOfStage(const StageContext& stage,
                                        const std::vector<Chunk>& chunks,
                                        const GroupLink& forward);
// The same for all stages of a plan. Shapes: [pp].
[[nodiscard]] std::vector<StageMemory> MemoryOfStages(
    const std::vector<StageContext>& stages, const PlanLinks& links);

// The peak of the fullest stage under ZeRO.
// Shape: stages [pp]. `shared`: the knobs of the whole plan.
[[nodiscard]] MemoryReport PeakOf(const Problem& problem,
                                  const ParallelConfig& shared,
                                  const std::vector<StageMemory>& stages);

// Adds a stage to the report; stages come in order. The first one replaces what
// the report contains.
void AddPeak(const Problem& problem, const ParallelConfig& shared,
             const ShardingBehavior& behavior, const StageMemory& stage,
             bool first, MemoryReport& report);

}  // namespace trials
