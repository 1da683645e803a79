#include "trials/simulator/stage_cost.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "trials/simulator/collectives.h"
#include "trials/simulator/pipeline.h"
#include "trials/simulator/stage_memory.h"
#include "trials/simulator/topology.h"

namespace trials {
namespace {

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
  // Moments other than those of AdamW are read and written, too.
  const double moments = 2.0 * (cost.memory.training.moment_bytes - 8.0);
  const double bytes =
      (mixed ? stage.problem.framework.optimizer.optimizer_bytes : 28.0) +
      moments;
  cost.optimizer_s = gpu.MemoryTime(bytes * cost.memory.parameters);
  cost.expert_optimizer_s =
      cost.expert_modules.empty()
          ? 0.0
          : gpu.MemoryTime(bytes * cost.memory.expert_parameters);
}

// Adds `count` modules whose backward takes `backward_s` each.
void AddModule(const StageContext& stage, const LayerCost& layer,
               double backward_s, int count, StageCost& cost) {
  const double bytes =
      stage.problem.framework.GradientBytes(stage.gpu.element_bytes());
  const auto add = [&](const std::vector<double>& tensors, SyncModule& module) {
    for (auto it = tensors.rbegin(); it != tensors.rend(); ++it) {
      module.tensor_bytes.push_back(*it * bytes);
    }
  };
  SyncModule module;
  module.backward_s = backward_s;
  module.count = count;
  SyncModule experts = module;
  add(layer.expert_parameters, stage.plan.shared.ep > 1 ? experts : module);
  add(layer.parameters, module);
  cost.modules.push_back(std::move(module));
  if (!experts.tensor_bytes.empty()) {
    cost.expert_modules.push_back(std::move(experts));
  }
}

// Adds the modules of a stage from the last to the first. The blocks of a chunk
// share the time of its action that head and embedding leave.
// Shapes: chunks and backward (their actions) [pp * model_chunks].
void AddModules(const StageContext& stage, const std::vector<Chunk>& chunks,
                const std::vector<TimeBreakdown>& backward, StageCost& cost) {
  const std::size_t stages = stage.plan.stages.size();
  for (std::size_t c = chunks.size() / stages; c-- > 0;) {
    const std::size_t v = c * stages + stage.stage;
    const Chunk& chunk = chunks[v];
    const double head_s = chunk.last ? stage.layers.head.backward_s : 0.0;
    const double embedding_s =
        chunk.first ? stage.layers.embedding.backward_s : 0.0;
    const double block_s = (backward[v].Total() - head_s - embedding_s) /
                           std::max(1, chunk.blocks);
    ForEachModule(
        stage, chunk, [&](ModuleKind kind, const LayerCost& layer, int count) {
          AddModule(stage, layer,
                    kind == ModuleKind::kBlock ? block_s : layer.backward_s,
                    count, cost);
        });
  }
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

// All-reduce of the embedding table that first and last stage share.
double SharedTableTime(const std::vector<StageContext>& stages,
                       const PlanLinks& links) {
  const StageContext& first = stages.front();
  const double elements =
      std::max(SharedTableElements(first), SharedTableElements(stages.back()));
  const double bytes =
      first.problem.framework.GradientBytes(first.gpu.element_bytes());
  const bool trained = !first.layers.embedding.parameters.empty();
  return elements == 0.0 || !trained
             ? 0.0
             : AllReduceTime(links.ends, elements * bytes);
}

}  // namespace

ActionTimes ActionsOf(const std::vector<StageContext>& stages,
                      const PlanLinks& links) {
  ActionTimes actions{.shape = PipelineOf(stages.front())};
  PipelineTimes& times = actions.times;
  const std::vector<Chunk> chunks = ChunksOf(
      stages.front().plan, stages.front().problem.workload.model.dense_layers);
  for (const Chunk& chunk : chunks) {
    const StageContext& stage = stages[chunk.stage];
    actions.forward.push_back(ForwardTime(stage, chunk));
    actions.backward.push_back(BackwardTime(stage, chunk));
    times.forward_s.push_back(actions.forward.back().Total());
    times.backward_s.push_back(actions.backward.back().Total());
    if (actions.shape.zero_bubble) {
      times.weights_s.push_back(WeightsTime(stage, chunk));
      times.backward_s.back() -= times.weights_s.back();
    }
  }
  AddTransfers(stages, links, times);
  const Framework& framework = stages.front().problem.framework;
  if (times.overlap && framework.allocator.nccl_channel_bytes > 0.0) {
    AddPendingReceives(stages, chunks, actions.forward, times.forward_s);
    AddPendingReceives(stages, chunks, actions.backward, times.backward_s);
  }
  return actions;
}

std::vector<StageCost> ComputeStageCosts(
    const std::vector<StageContext>& stages, const PlanLinks& links) {
  const Plan& plan = stages.front().plan;
  const ParallelConfig& shared = plan.shared;
  const std::vector<Chunk> chunks =
      ChunksOf(plan, stages.front().problem.workload.model.dense_layers);
  const auto [shape, forward, backward, times] = ActionsOf(stages, links);
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
    AddModules(stages[s], chunks, backward, cost);
    cost.memory = MemoryOfStage(stages[s], chunks, links.forward[s]);
    AddOptimizer(stages[s], cost);
  }
  costs.front().shared_table_s = costs.back().shared_table_s =
      SharedTableTime(stages, links);
  return costs;
}

double LeastStepTime(const std::vector<StageContext>& stages) {
  constexpr double kRounding = 1.0 - 1e-9;  // of sums in another order
  const StageContext& first = stages.front();
  const double microbatches = first.plan.shared.microbatches;
  const bool zero_bubble = PipelineOf(first).zero_bubble;
  double around_s = 0.0;  // of the stages before a stage
  std::vector<double> least_s(stages.size(), 0.0);
  for (const Chunk& chunk :
       ChunksOf(first.plan, first.problem.workload.model.dense_layers)) {
    const StageContext& stage = stages[chunk.stage];
    const double forward_s = ForwardTime(stage, chunk).Total();
    const double backward_s = BackwardTime(stage, chunk).Total();
    double& stage_s = least_s[chunk.stage];
    if (stage_s == 0.0) {  // its first chunk
      stage_s = around_s;
      around_s += forward_s + (zero_bubble ? 0.0 : backward_s);
    }
    stage_s += microbatches * (forward_s + backward_s);
  }
  return kRounding * *std::ranges::max_element(least_s);
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
