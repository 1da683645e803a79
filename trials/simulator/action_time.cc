#include "trials/simulator/action_time.h"

#include <cmath>

#include "trials/simulator/collectives.h"
#include "trials/simulator/sharding.h"

namespace trials {
namespace {

// Elements of a block on one rank, mean over the blocks.
double BlockElements(const LayerCosts& layers, const Chunk& chunk) {
  const double elements = layers.block.ParameterCount();
  return chunk.dense == 0
             ? elements
             : elements + (layers.dense_block.ParameterCount() - elements) *
                              chunk.dense / chunk.blocks;
}

// Exposed time of one round of the context-parallel ring, in which keys and
// values travel while attention processes the ones that have arrived.
double RingTime(const StageContext& stage, double core_s, double bytes) {
  const int cp = stage.plan.shared.cp;
  if (cp == 1) {
    return 0.0;
  }
  const double step_s = MessageTime(stage.links.cp, bytes);
  const Framework& framework = stage.problem.framework;
  const double hidden_s =
      framework.collectives.ring_overlap ? std::min(step_s, core_s / cp) : 0.0;
  return (cp - 1) * (step_s - hidden_s +
                     framework.Slowdown(stage.links.cp.slowdown) * hidden_s);
}

// Exposed time of the all-to-alls of some blocks beside `compute_s`.
double ExpertTime(const StageContext& stage, double blocks, double compute_s) {
  const Framework& framework = stage.problem.framework;
  const LayerCost& block = stage.layers.block;
  const GroupLink& ep = stage.links.ep;
  double bytes = block.all_to_all_bytes;
  if (framework.experts.token_once_per_host && ep.hosts > 1) {
    const Model& model = stage.problem.workload.model;
    bytes *= HostsOfToken(model, ep.hosts) / model.experts_per_token;
  }
  const double time_s = blocks * block.all_to_alls * AllToAllTime(ep, bytes);
  const double hidden_s = std::min(
      std::min(1.0, framework.experts.expert_overlap) * time_s, compute_s);
  return time_s - (1.0 - framework.Slowdown(ep.slowdown)) * hidden_s;
}

ShardedChunk Sharded(const StageContext& stage, const Chunk& chunk) {
  const LayerCosts& layers = stage.layers;
  return {chunk.blocks,
          BlockElements(layers, chunk),
          (chunk.first ? layers.embedding.ParameterCount() : 0.0) +
              (chunk.last ? layers.head.ParameterCount() : 0.0),
          stage.gpu.element_bytes(),
          stage.gpu.fp8() && stage.problem.framework.collectives.fp8_gathers
              ? 1.0 / stage.gpu.element_bytes()
              : 1.0,
          layers.block.TrainedShare(),
          layers.embedding.parameters.empty() ? 0.0 : 1.0};
}

// Gradients are added to those of earlier microbatches, or to sums in fp32.
bool Accumulates(const StageContext& stage) {
  return stage.plan.shared.microbatches > 1 ||
         stage.problem.framework.gradients.fp32_gradients;
}

// The GPU runs no kernel from before the loss after it.
bool WaitsAtLoss(const StageContext& stage, const Chunk& chunk) {
  return chunk.last && stage.problem.framework.dispatch.loss_overhead_s > 0.0;
}

// CPU time to issue the kernels that overlap with other kernels.
double DispatchTime(const StageContext& stage, const Chunk& chunk,
                    double LayerCost::*dispatch_s) {
  const ChunkSums sums{stage.layers, chunk};
  return WaitsAtLoss(stage, chunk) ? sums.Blocks(dispatch_s)
                                   : sums.All(dispatch_s);
}

// Adds collectives, and the CPU time of all kernels, to the GPU time of an
// action's layers.
void AddCollectivesAndDispatch(const StageContext& stage, const Chunk& chunk,
                               const Collectives& collectives,
                               double dispatch_s, double product_s,
                               TimeBreakdown& time) {
  const Framework& framework = stage.problem.framework;
  const GroupLink& tp = stage.links.tp;
  const double products = collectives.Count();
  time.tensor_s =
      CollectiveTime(framework, tp, stage.layers.block.collective_bytes,
                     collectives, products > 0.0 ? product_s / products : 0.0);
  const double gpu_s =
      time.Total() - (WaitsAtLoss(stage, chunk) ? time.head_s : 0.0);
  if (tp.hosts > 1 && framework.collectives.message_host_s > 0.0) {
    dispatch_s += time.tensor_s;  // the CPU waits for each message
  }
  time.overhead_s =
      DispatchOverhead(framework, gpu_s,
                       dispatch_s + IssueTime(framework, tp, collectives,
                                              stage.problem.SeveralHosts()));
}

}  // namespace

double HostsOfToken(const Model& model, int hosts) {
  const double reached =
      model.expert_groups == 0
          ? hosts
          : std::ceil(static_cast<double>(hosts) * model.groups_per_token /
                      model.expert_groups);
  return reached *
         (1.0 - std::pow(1.0 - 1.0 / reached, model.experts_per_token));
}

double CollectiveTime(const Framework& framework, const GroupLink& tp,
                      double bytes, const Collectives& collectives,
                      double product_s) {
  const double slowdown = framework.Slowdown(tp.slowdown);
  const double gather_s = AllGatherTime(tp, bytes);
  double exposed_s = gather_s;
  if (framework.collectives.tp_overlap) {
    const double hidden_s =
        (1.0 - 1.0 / tp.size) * std::min(gather_s, product_s);
    exposed_s -= (1.0 - slowdown) * hidden_s;
  }
  return collectives.all_reduces * AllReduceTime(tp, bytes) +
         collectives.gathers_and_scatters * exposed_s +
         slowdown * collectives.hidden_gathers * gather_s;
}

double IssueTime(const Framework& framework, const GroupLink& tp,
                 const Collectives& collectives, bool several_hosts) {
  const double slowdown =
      several_hosts ? std::max(1.0, framework.collectives.network_contention *
                                        std::sqrt(static_cast<double>(tp.size)))
                    : 1.0;
  return collectives.Count() *
         (slowdown * framework.collectives.message_dispatch_s +
          framework.collectives.message_host_s *
              static_cast<double>(tp.hosts - 1));
}

double DispatchOverhead(const Framework& framework, double gpu_s,
                        double dispatch_s) {
  const double n = framework.dispatch.dispatch_norm;
  if (n > 0.0 && gpu_s > 0.0) {
    const double both_s =
        gpu_s * std::pow(1.0 + std::pow(dispatch_s / gpu_s, n), 1.0 / n);
    return both_s - gpu_s;
  }
  return std::max(0.0, dispatch_s - gpu_s);
}

TimeBreakdown ForwardTime(const StageContext& stage, const Chunk& chunk) {
  const ChunkSums sums{stage.layers, chunk};
  const LayerCost& block = stage.layers.block;
  const Framework& framework = stage.problem.framework;
  TimeBreakdown time;
  time.forward_s = sums.Blocks(&LayerCost::forward_s);
  time.head_s = sums.Ends(&LayerCost::forward_s);
  time.context_s =
      chunk.blocks * RingTime(stage, block.core_forward_s, block.ring_bytes);
  time.expert_s = ExpertTime(stage, chunk.blocks - chunk.dense, time.forward_s);
  AddCollectivesAndDispatch(
      stage, chunk, sums.All(&LayerCost::forward_collectives),
      DispatchTime(stage, chunk, &LayerCost::forward_dispatch_s),
      time.forward_s - chunk.blocks * block.core_forward_s, time);
  time.overhead_s += framework.dispatch.microbatch_overhead_s;
  time.overhead_s += chunk.last ? framework.dispatch.loss_overhead_s : 0.0;
  time.data_s =
      ShardingTime(Pass::kForward, Sharded(stage, chunk), stage.links.shards,
                   stage.plan.shared, framework, time.forward_s + time.head_s);
  if (stage.problem.workload.training.reference_model) {
    time.Add(1.0, TimeBreakdown(time));  // the same pass of the other model
  }
  return time;
}

TimeBreakdown BackwardTime(const StageContext& stage, const Chunk& chunk) {
  const ChunkSums sums{stage.layers, chunk};
  const LayerCost& block = stage.layers.block;
  const Framework& framework = stage.problem.framework;
  const bool accumulate = Accumulates(stage);
  const double blocks = chunk.blocks;
  const double recomputed = chunk.recomputed;
  const double core = chunk.selective &&
                              framework.recomputation.recompute_core &&
                              !framework.recomputation.selective_by_operator
                          ? blocks - recomputed
                          : 0.0;
  const auto repeated = [&]<typename Field>(Field LayerCost::*field) {
    return chunk.selective ? sums.Kept(field) : Field{};
  };
  TimeBreakdown time;
  time.backward_s = sums.Blocks(&LayerCost::backward_s) +
                    (accumulate ? sums.Blocks(&LayerCost::accumulate_s) : 0.0);
  time.head_s = sums.Ends(&LayerCost::backward_s) +
                (accumulate ? sums.Ends(&LayerCost::accumulate_s) : 0.0);
  time.recompute_s = sums.Recomputed(&LayerCost::forward_s) -
                     sums.Recomputed(&LayerCost::last_forward_s) +
                     repeated(&LayerCost::selective_forward_s);
  // Keys and values are sent again, together with the gradients of both.
  const double gradients = framework.kernels.merge_backward_bytes > 0.0
                               ? 4.0 / stage.gpu.element_bytes()
                               : 1.0;
  time.context_s = blocks * RingTime(stage, block.core_backward_s,
                                     (1.0 + gradients) * block.ring_bytes) +
                   (recomputed + core) *
                       RingTime(stage, block.core_forward_s, block.ring_bytes);
  time.expert_s = ExpertTime(
      stage, blocks - chunk.dense + std::max(0, chunk.recomputed - chunk.dense),
      time.backward_s + time.recompute_s);
  AddCollectivesAndDispatch(
      stage, chunk,
      sums.All(&LayerCost::backward_collectives) +
          sums.Recomputed(&LayerCost::forward_collectives) -
          sums.Recomputed(&LayerCost::last_collectives) +
          repeated(&LayerCost::selective_collectives),
      DispatchTime(stage, chunk, &LayerCost::backward_dispatch_s) +
          sums.Recomputed(&LayerCost::forward_dispatch_s) +
          repeated(&LayerCost::selective_dispatch_s),
      time.backward_s - blocks * block.core_backward_s, time);
  time.data_s = ShardingTime(Pass::kBackward, Sharded(stage, chunk),
                             stage.links.shards, stage.plan.shared, framework,
                             time.backward_s + time.head_s + time.recompute_s);
  return time;
}

double WeightsTime(const StageContext& stage, const Chunk& chunk) {
  const ChunkSums sums{stage.layers, chunk};
  return sums.Blocks(&LayerCost::weights_s) +
         (Accumulates(stage) ? sums.Blocks(&LayerCost::accumulate_s) : 0.0);
}

PipelineShape PipelineOf(const StageContext& stage) {
  const ParallelConfig& shared = stage.plan.shared;
  return {shared.pp, shared.microbatches, shared.model_chunks,
          stage.problem.framework.pipeline.zero_bubble && shared.pp > 1 &&
              shared.model_chunks == 1};
}

}  // namespace trials
