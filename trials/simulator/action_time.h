// Time of one action: forward or backward of a microbatch through a chunk.

#ifndef TRIALS_SIMULATOR_ACTION_TIME_H_
#define TRIALS_SIMULATOR_ACTION_TIME_H_

#include "trials/simulator/layer_cost.h"
#include "trials/simulator/placement.h"
#include "trials/simulator/problem.h"
#include "trials/simulator/schedule.h"
#include "trials/simulator/step_report.h"

namespace trials {

// Exposed GPU time of tensor-parallel collectives of `bytes` each. A hidden
// all-gather only slows down the matrix product that runs concurrently. With
// Framework::collectives.tp_overlap an all-gather or reduce-scatter of time t
// and the product of `product_s` beside it run in tp chunks, of which all but
// one overlap,
//
//   exposed = t - (1 - slowdown) (1 - 1 / tp) min(t, product_s).
//
// Not validated: no public table has runs with and without it.
[[nodiscard]] double CollectiveTime(const Framework& framework,
                                    const GroupLink& tp, double bytes,
                                    const Collectives& collectives,
                                    double product_s = 0.0);

// CPU time to issue tensor-parallel collectives. `contended`: a pipeline keeps
// messages between hosts in transit.
[[nodiscard]] double IssueTime(const Framework& framework, const GroupLink& tp,
                               const Collectives& collectives, bool contended);

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
  bool contended;  // as above
};

// The sum of a field of LayerCost over the modules of a chunk.
template <typename Field>
[[nodiscard]] Field SumOfEnds(const LayerCosts& layers, const Chunk& chunk,
                              Field LayerCost::*field) {
  return (chunk.first ? layers.embedding.*field : Field{}) +
         (chunk.last ? layers.head.*field : Field{});
}

// The same over `blocks` blocks, of which `dense` have no experts.
template <typename Field>
[[nodiscard]] Field SumOfBlocks(const LayerCosts& layers, int blocks, int dense,
                                Field LayerCost::*field) {
  return static_cast<double>(blocks - dense) * (layers.block.*field) +
         static_cast<double>(dense) * (layers.dense_block.*field);
}

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

#endif  // TRIALS_SIMULATOR_ACTION_TIME_H_
