// A training plan whose stages may differ.

#ifndef TRIALS_SIMULATOR_PLAN_H_
#define TRIALS_SIMULATOR_PLAN_H_

#include <span>
#include <string>
#include <vector>

#include "trials/cluster.h"
#include "trials/parallel_config.h"
#include "trials/workload.h"

namespace trials {

// What may differ from stage to stage. `pool` says of which GPU type the
// stage's dp * cp * tp GPUs are: an index into the simulator's clusters.
struct PlanStage {
  int dp = 1;
  int tp = 1;
  int recomputed_layers = 0;  // of its layers, wholly; the first ones
  int pool = 0;
};

// Stages with a layer range, sizes and a GPU type each: the configurations of
// Aceso (layers, tp, dp and recomputation by stage) and of Astra's
// heterogeneous search (layers and GPU type by stage). A ParallelConfig is the
// case in which all stages are alike.
//
// `shared` holds the knobs that a plan has once: microbatches (the batch is cut
// into as many, whatever a stage's dp), model_chunks, ZeRO and buckets, cp, ep,
// sp; its pp is the number of stages, its dp and tp mean nothing. Layers that
// are not recomputed wholly follow shared.grad_checkpoint: with
// kRecomputeSelective their attention is.
//
// Source: Liu et al. (2024), Aceso, Sec. 3.1; Astra, Sec. 3.4, Eq. 23.
// Shapes: stages [pp]; layers [pp * model_chunks], by virtual stage.
struct Plan {
  ParallelConfig shared;
  std::vector<PlanStage> stages;
  std::vector<int> layers;
};

// The plan of a configuration: equal stages, layers by DistributeLayers.
[[nodiscard]] Plan UniformPlan(const ParallelConfig& config, int layers);
// The same with the given blocks of each virtual stage.
[[nodiscard]] Plan UniformPlan(const ParallelConfig& config,
                               std::vector<int> layers);

// All stages have the same sizes and GPU type.
[[nodiscard]] bool StagesAlike(const Plan& plan);

// The two stages divide a microbatch differently: it is resharded between them.
[[nodiscard]] bool Resharded(const Plan& plan, int stage, int other);

// What the configuration of this stage would be if all were like it.
[[nodiscard]] ParallelConfig StageConfig(const Plan& plan, int stage);

// GPUs of one stage, of the plan from one pool.
[[nodiscard]] int StageGpus(const Plan& plan, int stage);
[[nodiscard]] int PoolGpus(const Plan& plan, int pool);

// Errors: throws std::invalid_argument naming the stage, the value and the
// rule: layers that do not add up to the model's, more recomputed layers than
// there are, an unknown pool or more GPUs than it has, and Constraints() for
// each stage's configuration.
void CheckPlan(const Plan& plan,
               const Workload& workload,
               std::span<const Cluster> pools);

}  // namespace trials

#endif  // TRIALS_SIMULATOR_PLAN_H_
