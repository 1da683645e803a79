// The stages of plans on one problem.

#ifndef TRIALS_SIMULATOR_PLAN_MODEL_H_
#define TRIALS_SIMULATOR_PLAN_MODEL_H_

#include <map>
#include <utility>
#include <vector>

#include "trials/plan.h"
#include "trials/simulator/problem.h"
#include "trials/simulator/stage_cost.h"

namespace trials {

// Computes the costs of a plan's stages from its layers and links, both of
// which are memoized: plans share them.
class PlanModel {
 public:
  // Errors: throws std::invalid_argument without a cluster.
  PlanModel(const Workload& workload, std::vector<Cluster> gpu_types,
            const Framework& framework);

  [[nodiscard]] const Problem& problem() const { return problem_; }

  // The plan of a configuration, with layers as the framework distributes them;
  // its stages fill the GPU types in their order (FillTypes).
  [[nodiscard]] Plan PlanOf(const ParallelConfig& config) const;

  [[nodiscard]] std::vector<StageCost> StageCosts(const Plan& plan);

 private:
  const LayerCosts& Layers(const Plan& plan, int stage);

  Problem problem_;
  std::map<std::pair<int, Shard>, LayerCosts> layers_;  // by gpu_type and shard
  std::map<StageGrid, PlanLinks> links_;
};

}  // namespace trials

#endif  // TRIALS_SIMULATOR_PLAN_MODEL_H_
