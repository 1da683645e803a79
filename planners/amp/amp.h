// AMP: trials in the order of AMP's strategies.
//
// Built: the cost model, the placement of stages on hosts (regular tilings
// only), the dynamic program that assigns uneven layers to stages for each
// microbatch size, and the search over all sizes. Not built: hosts of unequal
// bandwidths and GPUs of several types (AMP's own profiles have one, too), its
// simulated annealing, which replaces the enumeration of placements on large
// clusters, and its launcher. Its model has no memory; the option
// `memory_filter` adds that of Aceso's model.

#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "methods/options.h"
#include "planners/operator_job.h"
#include "planners/operators/operator_plan.h"
#include "planners/operators/plan_cost.h"
#include "planners/planner.h"

namespace planners {

struct AmpCluster {
  int gpus_per_host = 1;
  int hosts = 1;
};

// The host of every GPU. GPU k of a stage has the tensor-parallel rank k % tp
// and belongs to replica k / tp.
struct Placement {
  std::vector<std::vector<int>> hosts;  // [stages][GPUs of a stage]

  friend bool operator==(const Placement&, const Placement&) = default;
};

// The regular placements of stages with so many GPUs: a stage is a rectangle of
// h GPUs in each of w hosts, the same for all stages, and stages follow each
// other within hosts first or across hosts first. None is twice in the result.
// Tilings that mix rectangles of two shapes are not built.
// Source: the published program of Li et al. (2022), which tiles the cluster.
[[nodiscard]] std::vector<Placement> RegularPlacements(
    const AmpCluster& cluster, int stages, int gpus_per_stage);

// One tp and dp for the whole model. Powers of two.
struct AmpSizes {
  int tp = 1;
  int dp = 1;
  int pp = 1;
  int micro_batch = 1;  // sequences of a microbatch of one replica
};

struct AmpCost {
  std::vector<double> stage_ms;     // [pp], of one microbatch: t_i
  std::vector<double> transfer_ms;  // [pp - 1]: e_i
  double reduce_ms = 0.0;           // of the gradients of the slowest stage
  double iteration_ms = 0.0;
};

// Over profiled operators and links, as Aceso's model. With B microbatches,
//
//   T = sum_i t_i + sum_i e_i + (B - 1) max_i t_i + max_i r_i.
//
// t_i is the time of the layers of stage i, forward and backward. e_i moves the
// output of stage i and its gradient in 16 bits over the slowest link between
// GPUs of the same tensor-parallel rank, the mean over replicas. r_i is a ring
// all-reduce of the stage's gradients in 32 bits over its slowest link,
// 2 (dp - 1) / dp of their size. Transfers do not share links. There is no
// memory, ZeRO or recomputation in it.
//
// Source: Li et al. (2022), arXiv 2210.07297, its cost model; the published
// program for the sizes of numbers.
// Note: that program takes the last link of a ring for its slowest one; here it
// is the slowest.
class AmpModel {
 public:
  // The operator model must outlive it.
  // Errors: throws std::invalid_argument if the cluster and the operator model
  // have different numbers of GPUs.
  AmpModel(const OperatorModel& operators, const AmpCluster& cluster);

  [[nodiscard]] const OperatorModel& operators() const { return operators_; }
  [[nodiscard]] const AmpCluster& cluster() const { return cluster_; }

  // The first operators of the layers of AMP, then the number of operators:
  // what precedes the repeated layers, each of them, and what follows them.
  [[nodiscard]] const std::vector<int>& layers() const { return layers_; }

  // Microbatches of a replica; 0 where the sizes do not divide the batch.
  [[nodiscard]] int MicrobatchesOf(const AmpSizes& sizes) const;

  // t of every layer, in ms; infinite where an operator is not profiled.
  [[nodiscard]] std::vector<double> LayerMs(const AmpSizes& sizes) const;

  // e by stage and by the layer whose output is sent, [pp - 1][layers - 1].
  [[nodiscard]] std::vector<std::vector<double>> TransferMs(
      const AmpSizes& sizes, const Placement& placement) const;

  // `first` is a LayerAssignment.
  [[nodiscard]] AmpCost Cost(const AmpSizes& sizes, const Placement& placement,
                             const std::vector<int>& first) const;

  // The strategy as a plan of operators, without its placement.
  [[nodiscard]] OperatorPlan PlanOf(const AmpSizes& sizes,
                                    const std::vector<int>& first) const;

 private:
  [[nodiscard]] double LinkMs(double mb, int host, int other) const;
  // One direction between neighboring stages on these hosts.
  [[nodiscard]] double TransferMs(const AmpSizes& sizes,
                                  const std::vector<int>& from,
                                  const std::vector<int>& to, double mb) const;
  // The output of a layer on one GPU.
  [[nodiscard]] double SentMb(const AmpSizes& sizes, std::size_t layer) const;
  [[nodiscard]] double ReduceMs(const AmpSizes& sizes,
                                const std::vector<int>& hosts,
                                double gradients_mb) const;

  const OperatorModel& operators_;
  AmpCluster cluster_;
  std::vector<int> layers_;
};

// The first layer of each stage, then the number of layers.
struct LayerAssignment {
  std::vector<int> first;  // [stages + 1]; empty: there are too few layers
  double ms = 0.0;
};

// The assignment of contiguous layers to stages, at least one each, with the
// least
//
//   sum_i t_i + sum_i e_i + (B - 1) max_i t_i,
//
// where t_i is the sum over the layers of stage i, e_i the transfer from stage
// i to i + 1 and B the number of microbatches. For each bound on max_i t_i, a
// dynamic program over layers and stages finds the least sum of e_i; bounds are
// the sums of contiguous layers.
// Shapes: layer_ms is [L]; transfer_ms is [stages - 1][L - 1], by stage and by
//         the layer whose output is sent. All >= 0 and finite.
// Source: Li et al. (2022), arXiv 2210.07297, its layer assignment.
[[nodiscard]] LayerAssignment AssignLayers(
    const std::vector<double>& layer_ms,
    const std::vector<std::vector<double>>& transfer_ms, int stages,
    int microbatches);

// A strategy: sizes, placement and layers.
struct AmpStrategy {
  AmpSizes sizes;
  Placement placement;
  std::vector<int> first;  // LayerAssignment
  AmpCost cost;
  double memory_mb = 0.0;  // by the operator model
};

// The best strategy of every (tp, dp, pp, microbatch size), the fastest first:
// all placements, each with its best assignment of layers. tp is at most a host
// and all sizes are powers of two. Sizes without profiles are left out.
// Source: Li et al. (2022), arXiv 2210.07297.
[[nodiscard]] std::vector<AmpStrategy> SearchAmp(const AmpModel& model);

// Proposes the nearest configuration of each strategy, the fastest first. A
// candidate has stages of equally many layers and the framework's placement, so
// it is judged without the strategy's layers and placement. Strategies do not
// recompute.
struct AmpOptions : OperatorJobOptions {
  // Strategies that need more than kMemoryShare of the GPU come last.
  bool memory_filter = false;
};

[[nodiscard]] std::vector<methods::Option> OptionsOf(AmpOptions& options);

// Estimates a configuration by AMP's cost model, placed as the fastest regular
// placement, with equal stages, and its memory by Aceso's model. NaN where
// operators are not profiled, sizes are not powers of two or exceed the layers.
[[nodiscard]] std::unique_ptr<Planner> MakePlanner(const AmpOptions& options);

}  // namespace planners
