// Time of one action: forward or backward of a microbatch through a chunk.

#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "common/ranges.h"
#include "trials/cluster.h"
#include "trials/schedule.h"
#include "trials/simulator/layer_cost.h"
#include "trials/simulator/placement.h"
#include "trials/simulator/step_report.h"
#include "trials/workload.h"

namespace trials {

// The inputs of a simulation other than the plan.
struct Problem {
  Workload workload;
  std::vector<Cluster> gpu_types;  // one for each GPU type
  Framework framework;
  std::vector<GpuModel> gpus;  // of each gpu_type

  [[nodiscard]] std::vector<int> GpusOfTypes() const {
    return common::Map(gpu_types, &Cluster::gpus);
  }
  // A rank of a GPU type among all ranks, which fill the types in their order.
  [[nodiscard]] int FirstRank(int gpu_type, int rank) const {
    return GpusOf(std::span(gpu_types).first(gpu_type)) + rank;
  }
  [[nodiscard]] bool SeveralHosts() const {
    return gpu_types.size() > 1 || gpu_types.front().nodes > 1;
  }
};

// Exposed GPU time of tensor-parallel collectives of `bytes` each. A hidden
// all-gather only slows down the matrix product that runs concurrently. With
// Framework::collectives.tp_overlap an all-gather or reduce-scatter of time t
// and the product of `product_s` beside it run in tp chunks, of which all but
// one overlap,
//
//   exposed = t - (1 - slowdown) (1 - 1 / tp) min(t, product_s).
//
// Compared with torchtitan's runs with and without async TP.
[[nodiscard]] double CollectiveTime(const Framework& framework,
                                    const GroupLink& tp, double bytes,
                                    const Collectives& collectives,
                                    double product_s = 0.0);

// The expected number of hosts, of those that share the experts, with one of a
// token's k experts: H (1 - (1 - 1/H)^k), where H is limited to the hosts of
// the groups that a token may use.
//
// Source: DeepSeek-V3 (2024), Sec. 2.1.2, node-limited routing; Sec. 3.2.2, a
// token is sent to each node once.
[[nodiscard]] double HostsOfToken(const Model& model, int hosts);

// CPU time to issue tensor-parallel collectives of a job on several hosts or on
// one.
[[nodiscard]] double IssueTime(const Framework& framework, const GroupLink& tp,
                               const Collectives& collectives,
                               bool several_hosts);

// The time that issuing kernels on the CPU adds to their GPU time: kernels are
// issued while earlier ones run, so only the excess is exposed,
//
//   (gpu^n + cpu^n)^(1/n) - gpu,   n = Framework::dispatch.dispatch_norm,
//   max(0, cpu - gpu)              where n is 0.
[[nodiscard]] double DispatchOverhead(const Framework& framework, double gpu_s,
                                      double dispatch_s);

// One stage of a plan with everything that its time and memory depend on.
struct StageContext {
  const Problem& problem;
  const Plan& plan;
  int stage;
  const GpuModel& gpu;
  const LayerCosts& layers;
  const StageLinks& links;
};

// Sums of a field of LayerCost over modules of a chunk.
struct ChunkSums {
  const LayerCosts& layers;
  const Chunk& chunk;

  template <typename Field>
  [[nodiscard]] Field All(Field LayerCost::*field) const {
    return Blocks(field) + Ends(field);
  }
  // The embedding and the head.
  template <typename Field>
  [[nodiscard]] Field Ends(Field LayerCost::*field) const {
    return (chunk.first ? layers.embedding.*field : Field{}) +
           (chunk.last ? layers.head.*field : Field{});
  }
  template <typename Field>
  [[nodiscard]] Field Blocks(Field LayerCost::*field) const {
    return Of(chunk.blocks, chunk.dense, field);
  }
  // The blocks that are recomputed fully, which are the first ones.
  template <typename Field>
  [[nodiscard]] Field Recomputed(Field LayerCost::*field) const {
    return Of(chunk.recomputed, std::min(chunk.recomputed, chunk.dense), field);
  }
  // The other blocks.
  template <typename Field>
  [[nodiscard]] Field Kept(Field LayerCost::*field) const {
    return Of(chunk.blocks - chunk.recomputed,
              std::max(0, chunk.dense - chunk.recomputed), field);
  }
  // `blocks` blocks, of which `dense` have no experts.
  template <typename Field>
  [[nodiscard]] Field Of(int blocks, int dense, Field LayerCost::*field) const {
    return static_cast<double>(blocks - dense) * (layers.block.*field) +
           static_cast<double>(dense) * (layers.dense_block.*field);
  }
};

// Time of an action of the stage:
//
//   forward  = max(GPU, CPU) of the chunk's layers + TP collectives + head
//              + ring of keys and values + all-to-alls of experts
//   backward = the same, + recomputation
//
// where the excess of CPU time over GPU time counts as overhead. ZeRO 3 gathers
// parameters and scatters gradients in every action.
//
// Source: docs/simulator.md, "A step".
[[nodiscard]] TimeBreakdown ForwardTime(const StageContext& stage,
                                        const Chunk& chunk);
[[nodiscard]] TimeBreakdown BackwardTime(const StageContext& stage,
                                         const Chunk& chunk);

// The part of BackwardTime that a split backward pass computes later: gradients
// of the weights of blocks. Those of the head are not delayed, because they
// need the gradients of the logits.
[[nodiscard]] double WeightsTime(const StageContext& stage, const Chunk& chunk);

// The pipeline of the stage's plan.
[[nodiscard]] PipelineShape PipelineOf(const StageContext& stage);

}  // namespace trials
