#include "trials/simulator/stage_sync.h"

#include <algorithm>
#include <limits>

#include "common/units.h"

namespace trials {
namespace {

using common::kGiga;

// Gradients become complete during the backward pass of a microbatch.
bool Bucketed(const Framework& framework, const ParallelConfig& shared) {
  return framework.gradients.reduce_in_backward &&
         (shared.pp == 1 || framework.gradients.reduce_in_pipeline);
}

// Gradients are reduced bucket by bucket while backward runs.
bool Overlaps(const Framework& framework, const ParallelConfig& shared) {
  return Bucketed(framework, shared) &&
         (shared.zero_stage == 0 || shared.overlap_zero_comm);
}

double BucketBytes(const Problem& problem, const ParallelConfig& shared,
                   const StageCost& stage) {
  const Framework& framework = problem.framework;
  if (shared.zero_stage > 0) {
    // FSDP: a unit per module.
    return framework.sharding.fsdp
               ? framework.GradientBytes(problem.gpus[0].element_bytes()) *
                     stage.memory.largest_module
               : framework.ZeroBucketBytes(shared.zero_bucket_mb);
  }
  if (!framework.gradients.reduce_in_backward) {
    return std::numeric_limits<double>::infinity();
  }
  return Bucketed(framework, shared) ? shared.dp_bucket_mb * kBucketMegabyte
                                     : 0.0;
}

void AddSync(const Problem& problem, const SyncOptions& options,
             const std::vector<SyncModule>& modules, const GroupLink& link,
             const GroupLink* copy,  // the ranks that gather parameters
             double gather_unpack_s_per_byte, StageSync& sync) {
  if (modules.empty()) {
    return;
  }
  const Framework& framework = problem.framework;
  const SyncTime reduce = ReduceGradients(modules, link, options, framework);
  sync.reduce.exposed_s += reduce.exposed_s;
  sync.reduce.overhead_s += reduce.overhead_s;
  if (copy != nullptr) {
    const double e = problem.gpus[0].element_bytes();
    const GatherPlan gather =
        PlanGather(modules, *copy, options.bucket_bytes, framework,
                   e / framework.GradientBytes(e), gather_unpack_s_per_byte);
    GatherPlan& sum = sync.gather;
    sum.total_s += gather.total_s;
    sum.overhead_s += gather.overhead_s;
    sum.overlapped_s += gather.overlapped_s;
    sum.first_s = std::max(sum.first_s, gather.first_s);
    sum.overlapped_overhead_s += gather.overlapped_overhead_s;
    sum.slowdown = std::max(sum.slowdown, gather.slowdown);
  }
}

StageSync Synchronize(const Problem& problem, const ParallelConfig& shared,
                      const StageCost& stage) {
  StageSync sync;
  if (shared.zero_stage == 3) {
    return sync;
  }
  const bool zero = shared.zero_stage > 0;
  const Framework& framework = problem.framework;
  const bool scatter =
      shared.zero_stage == 2 || (zero && framework.gradients.scatter_gradients);
  // A pipeline without ZeRO reduces every tensor in place.
  const bool copies = zero || shared.pp == 1;
  const double byte_s =
      problem.gpus[stage.gpu_type].MemoryTime(kGiga, 0) / kGiga;
  const SyncOptions experts{
      .kind = scatter ? SyncKind::kReduceScatter : SyncKind::kAllReduce,
      .bucket_bytes = BucketBytes(problem, shared, stage),
      .overlap = Overlaps(framework, shared),
      .own_stream = zero && shared.overlap_zero_comm,
      .lazy = zero,
      .pack_s_per_byte =
          copies ? framework.gradients.bucket_pack_bytes * byte_s : 0.0,
      .unpack_s_per_byte =
          copies ? framework.gradients.bucket_unpack_bytes * byte_s : 0.0,
      .link_share = stage.links.dp.nvlink ? 0.0 : stage.tensor_share};
  const double gather_s_per_byte =
      framework.sharding.gather_unpack_bytes * byte_s;
  SyncOptions options = experts;
  if (scatter) {
    options.across = stage.links.shards.across;
  }
  const GroupLink& link = scatter ? stage.links.shards.within : stage.links.dp;
  const GroupLink& copy = framework.ShardsInGroups(shared.zero_stage)
                              ? stage.links.shards.within
                              : stage.links.dp;
  const GroupLink& expert_link = stage.links.expert_dp;
  AddSync(problem, options, stage.modules, link, zero ? &copy : nullptr,
          gather_s_per_byte, sync);
  AddSync(problem, experts, stage.expert_modules, expert_link,
          zero ? &expert_link : nullptr, gather_s_per_byte, sync);
  if (shared.zero_stage == 2 && !framework.sharding.no_sync) {
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
  const bool bucketed = Bucketed(framework, config);
  if (config.zero_stage == 0) {
    config.overlap_zero_comm = defaults.overlap_zero_comm;
  }
  config.micro_batch_size = defaults.micro_batch_size;  // follows from others
  config.overlap_zero_allgather = defaults.overlap_zero_allgather;
  if (config.zero_stage > 0 || !bucketed) {
    config.dp_bucket_mb = defaults.dp_bucket_mb;
  }
  if (config.zero_stage == 0 || framework.sharding.fsdp ||
      framework.sharding.zero_bucket_bytes > 0.0) {
    config.zero_bucket_mb = defaults.zero_bucket_mb;
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
