#include "trials/simulator/stage_sync.h"

#include <algorithm>

namespace trials {
namespace {

// Gradients are reduced bucket by bucket while backward runs.
bool Overlaps(const Framework& framework, const ParallelConfig& shared) {
  return shared.pp == 1 && framework.reduce_in_backward &&
         (shared.zero_stage == 0 || shared.overlap_zero_comm);
}

double BucketBytes(const Problem& problem,
                   const ParallelConfig& shared,
                   const StageCost& stage) {
  const Framework& framework = problem.framework;
  if (shared.zero_stage > 0) {
    // FSDP: a unit per module.
    return framework.fsdp
               ? framework.GradientBytes(problem.gpus[0].element_bytes()) *
                     stage.memory.largest_module
               : framework.ZeroBucketBytes(shared.zero_bucket_mb);
  }
  if (!framework.reduce_in_backward) {
    constexpr double kAll = 1e18;  // more than any model's gradients
    return kAll;
  }
  return shared.pp == 1 ? shared.dp_bucket_mb * kBucketMegabyte : 0.0;
}

void AddSync(const Problem& problem,
             const SyncOptions& options,
             const std::vector<SyncModule>& modules,
             const GroupLink& link,
             const GroupLink* copy,  // the ranks that gather parameters
             StageSync& sync) {
  if (modules.empty()) {
    return;
  }
  const Framework& framework = problem.framework;
  const SyncTime reduce = ReduceGradients(modules, link, options, framework);
  sync.reduce.exposed_s += reduce.exposed_s;
  sync.reduce.overhead_s += reduce.overhead_s;
  if (copy != nullptr) {
    const double e = problem.gpus[0].element_bytes();
    const GatherPlan gather = PlanGather(modules,
                                         *copy,
                                         options.bucket_bytes,
                                         framework,
                                         e / framework.GradientBytes(e));
    sync.gather.total_s += gather.total_s;
    sync.gather.first_s = std::max(sync.gather.first_s, gather.first_s);
    sync.gather.overhead_s += gather.overhead_s;
  }
}

StageSync Synchronize(const Problem& problem,
                      const ParallelConfig& shared,
                      const StageCost& stage) {
  StageSync sync;
  if (shared.zero_stage == 3) {
    return sync;
  }
  const bool zero = shared.zero_stage > 0;
  const bool scatter = shared.zero_stage == 2;
  const SyncOptions experts{
      scatter ? SyncKind::kReduceScatter : SyncKind::kAllReduce,
      BucketBytes(problem, shared, stage),
      Overlaps(problem.framework, shared)};
  SyncOptions options = experts;
  if (scatter) {
    options.across = stage.links.shards.across;
  }
  const GroupLink& link = scatter ? stage.links.shards.within : stage.links.dp;
  const GroupLink& copy = problem.framework.ShardsInGroups(shared.zero_stage)
                              ? stage.links.shards.within
                              : stage.links.dp;
  const GroupLink& expert_link = stage.links.expert_dp;
  AddSync(problem, options, stage.modules, link, zero ? &copy : nullptr, sync);
  AddSync(problem,
          experts,
          stage.expert_modules,
          expert_link,
          zero ? &expert_link : nullptr,
          sync);
  if (scatter) {
    // A rank keeps only its shard of the gradients, so the gradients of every
    // microbatch are scattered before the next ones arrive.
    sync.reduce.exposed_s *= shared.microbatches;
    sync.reduce.overhead_s *= shared.microbatches;
  }
  return sync;
}

}  // namespace

std::vector<StageSync> SynchronizeStages(const Problem& problem,
                                         const ParallelConfig& shared,
                                         const std::vector<StageCost>& stages) {
  std::vector<StageSync> syncs;
  syncs.reserve(stages.size());
  for (const StageCost& stage : stages) {
    syncs.push_back(Synchronize(problem, shared, stage));
  }
  return syncs;
}

ParallelConfig StageSyncKnobs(const Framework& framework,
                              ParallelConfig config) {
  const ParallelConfig defaults;
  const bool bucketed = config.pp == 1 && framework.reduce_in_backward;
  config.micro_batch_size = defaults.micro_batch_size;  // follows from others
  config.overlap_zero_allgather = defaults.overlap_zero_allgather;
  if (config.zero_stage > 0 || !bucketed) {
    config.dp_bucket_mb = defaults.dp_bucket_mb;
  }
  if (config.zero_stage == 0 || framework.fsdp ||
      framework.zero_bucket_bytes > 0.0) {
    config.zero_bucket_mb = defaults.zero_bucket_mb;
  }
  if (config.zero_stage == 0 || !bucketed) {
    config.overlap_zero_comm = defaults.overlap_zero_comm;
  }
  if (!Overlaps(framework, config)) {  // the time of backward does not matter
    config.overlap_p2p = defaults.overlap_p2p;
    config.grad_checkpoint = defaults.grad_checkpoint;
    config.sp = defaults.sp;
    if (config.zero_stage != 2) {
      config.microbatches = defaults.microbatches;
    }
  }
  return config;
}

}  // namespace trials
