#include "trials/simulator/plan_model.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <stdexcept>

#include "trials/simulator/memo.h"
#include "trials/simulator/stage_balance.h"

namespace trials {

PlanModel::PlanModel(const Workload& workload, std::vector<Cluster> gpu_types,
                     const Framework& framework)
    : problem_{workload,
               std::move(gpu_types),
               ForPrecision(framework, workload.precision),
               {}} {
  if (problem_.gpu_types.empty()) {
    throw std::invalid_argument(
        "a simulator needs at least one cluster to run on");
  }
  for (const Cluster& gpu_type : problem_.gpu_types) {
    problem_.gpus.emplace_back(gpu_type.gpu, problem_.workload.precision,
                               framework.kernels.launch_s);
  }
}

Plan PlanModel::PlanOf(const ParallelConfig& config) const {
  const Model& model = problem_.workload.model;
  Plan plan =
      problem_.framework.pipeline.balance_stages
          ? UniformPlan(config, BalanceLayers(model.layers, BlocksInHead(model),
                                              config.pp * config.model_chunks))
          : UniformPlan(config, model.layers);
  if (problem_.gpu_types.size() > 1) {
    FillTypes(problem_.GpusOfTypes(), plan);
  }
  return plan;
}

const LayerCosts& PlanModel::Layers(const Plan& plan, int stage) {
  const ParallelConfig& shared = plan.shared;
  const PlanStage& own = plan.stages[stage];
  const double sequences = static_cast<double>(problem_.workload.batch_size) /
                           (static_cast<double>(own.dp) * shared.microbatches);
  const Shard shard{sequences, own.tp, SplitsTokens(plan, stage), shared.cp,
                    shared.ep};
  return Memoized(layers_, {own.gpu_type, shard}, [&](const auto& key) {
    return ComputeLayerCosts(problem_.workload, problem_.framework,
                             problem_.gpus[key.first], key.second);
  });
}

std::vector<StageCost> PlanModel::StageCosts(const Plan& plan) {
  const Framework& framework = problem_.framework;
  const PlacementOptions options{
      framework.pipeline.pipeline_outermost,
      framework.sharding.fsdp && framework.sharding.shard_within_host,
      framework.sharding.zero_group_ranks};
  const std::optional<StageGrid> grid = GridOf(plan);
  const PlanLinks placed =
      grid ? PlanLinks{} : PlacePlan(problem_.gpu_types, plan, options);
  const PlanLinks& links =
      grid ? Memoized(links_, *grid,
                      [&](const StageGrid& key) {
                        return PlaceGrid(problem_.gpu_types, key, options);
                      })
           : placed;
  const bool contended =
      plan.shared.pp > 1 &&
      std::any_of(links.forward.begin(), links.forward.end(),
                  [](const GroupLink& link) { return link.hosts > 1; });
  std::vector<StageContext> stages;
  stages.reserve(plan.stages.size());
  for (int s = 0; s < plan.shared.pp; ++s) {
    const auto i = static_cast<std::size_t>(s);
    stages.push_back({problem_, plan, s, problem_.gpus[plan.stages[i].gpu_type],
                      Layers(plan, s), links.stages[i], contended});
  }
  return ComputeStageCosts(stages, links);
}

}  // namespace trials
