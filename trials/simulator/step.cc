#include "trials/simulator/step.h"

#include <algorithm>
#include <limits>

#include "common/ranges.h"
#include "common/units.h"
#include "trials/simulator/sharding.h"
#include "trials/simulator/stage_memory.h"

namespace trials {
namespace {

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

// What follows the pipeline on one stage.
struct StageEnd {
  const Problem& problem;
  const ParallelConfig& shared;  // the knobs of the whole plan
  const ShardingBehavior& behavior;
  const StageCost& stage;
  const Framework& framework = problem.framework;
  const Cluster& cluster = problem.gpu_types[stage.gpu_type];
  const GpuModel& gpu = problem.gpus[stage.gpu_type];
  RankMemory rank = {shared, stage.memory, gpu.element_bytes(), framework,
                     behavior};
  bool zero = shared.zero_stage > 0;

  [[nodiscard]] StageSync Synchronize() const {
    StageSync sync;
    if (shared.zero_stage == 3) {
      return sync;
    }
    // A pipeline without ZeRO reduces every tensor in place.
    const bool copies = zero || shared.pp == 1;
    const double byte_s = ByteTime();
    const SyncOptions experts{
        .scatter = behavior.scatters,
        .bucket_bytes = BucketBytes(),
        .overlap = Overlaps(framework, shared),
        .own_stream = zero && shared.overlap_zero_comm,
        .lazy = zero,
        .pack_s_per_byte =
            copies ? framework.gradients.bucket_pack_bytes * byte_s : 0.0,
        .unpack_s_per_byte =
            copies ? framework.gradients.bucket_unpack_bytes * byte_s : 0.0,
        .link_share = stage.links.dp.nvlink ? 0.0 : stage.tensor_share};
    SyncOptions options = experts;
    if (behavior.scatters) {
      options.across = stage.links.shards.across;
    }
    const GroupLink& shards = stage.links.shards.within;
    AddSync(options, stage.modules, behavior.scatters ? shards : stage.links.dp,
            behavior.in_groups ? shards : stage.links.dp, sync);
    AddSync(experts, stage.expert_modules, stage.links.expert_dp,
            stage.links.expert_dp, sync);
    if (shared.zero_stage == 2 && !behavior.scatters_once) {
      // A rank keeps only its shard of the gradients, so the gradients of every
      // microbatch are scattered before the next ones arrive.
      sync.reduce.exposed_s *= shared.microbatches;
      sync.reduce.overhead_s *= shared.microbatches;
    }
    return sync;
  }

  // `table_begin_s`: both holders of a tied embedding table have finished.
  [[nodiscard]] AfterPipeline After(const StageSync& sync,
                                    double table_begin_s) const {
    AfterPipeline after{.reduce_s = sync.reduce.exposed_s,
                        .optimizer_s = OptimizerTime(),
                        .overhead_s = sync.reduce.overhead_s +
                                      framework.dispatch.step_overhead_s};
    if (stage.shared_table_s > 0.0) {
      after.wait_s = table_begin_s - stage.end_s;
      after.reduce_s += stage.shared_table_s;
    }
    if (zero && shared.zero_stage < 3) {
      const SyncTime gather =
          ExposeGather(sync.gather, shared.overlap_zero_allgather,
                       stage.begin_s + stage.first_forward_s);
      const int gathers = behavior.gathers_again ? shared.microbatches : 1;
      after.gather_s = gathers * gather.exposed_s;
      after.overhead_s += gathers * gather.overhead_s;
    }
    return after;
  }

  // Of the step of the stage, without waiting for others.
  [[nodiscard]] double BusyTime(const AfterPipeline& after) const {
    return stage.end_s - stage.time.bubble_s + after.reduce_s + after.gather_s +
           after.optimizer_s + after.overhead_s;
  }

  // Adds the end of the step of the stage to the report, if the stage is the
  // first or ends last.
  void AddTime(const AfterPipeline& after, bool first,
               StepReport& report) const {
    const double data_s = after.reduce_s + after.gather_s;
    const double end_s = stage.end_s + after.wait_s + data_s +
                         after.optimizer_s + after.overhead_s;
    if (!first && end_s <= report.step_time_s) {
      return;
    }
    report.step_time_s = end_s;
    report.critical_rank =
        problem.FirstRank(stage.gpu_type, stage.links.first_rank);
    report.time = TimeOf(stage, after);
  }

  // Seconds for a byte of the GPU's memory.
  [[nodiscard]] double ByteTime() const {
    return gpu.MemoryTime(common::kGiga, 0) / common::kGiga;
  }

  [[nodiscard]] double BucketBytes() const {
    if (zero) {
      return behavior.by_module
                 ? framework.GradientBytes(gpu.element_bytes()) *
                       stage.memory.largest_module
                 : framework.ZeroBucketBytes(shared.zero_bucket_mb);
    }
    if (!framework.gradients.reduce_in_backward) {
      return std::numeric_limits<double>::infinity();
    }
    return Bucketed(framework, shared) ? shared.dp_bucket_mb * kBucketMegabyte
                                       : 0.0;
  }

  // `copy`: the ranks that gather parameters under ZeRO.
  void AddSync(const SyncOptions& options,
               const std::vector<SyncModule>& modules, const GroupLink& link,
               const GroupLink& copy, StageSync& sync) const {
    if (modules.empty()) {
      return;
    }
    const SyncTime reduce = ReduceGradients(modules, link, options, framework);
    sync.reduce.exposed_s += reduce.exposed_s;
    sync.reduce.overhead_s += reduce.overhead_s;
    if (!zero) {
      return;
    }
    const double e = gpu.element_bytes();
    const double gathered =  // bytes of a parameter
        gpu.fp8() && framework.collectives.fp8_gathers ? 1.0 : e;
    const GatherPlan gather =
        PlanGather(modules, copy, options.bucket_bytes, framework,
                   gathered / framework.GradientBytes(e),
                   framework.sharding.gather_unpack_bytes * ByteTime());
    GatherPlan& sum = sync.gather;
    sum.total_s += gather.total_s;
    sum.overhead_s += gather.overhead_s;
    sum.overlapped_s += gather.overlapped_s;
    sum.first_s = std::max(sum.first_s, gather.first_s);
    sum.overlapped_overhead_s += gather.overlapped_overhead_s;
    sum.slowdown = std::max(sum.slowdown, gather.slowdown);
  }

  // The casts and copies of the optimizer's step are issued one by one while
  // the GPU has nothing else to do.
  [[nodiscard]] double OptimizerTime() const {
    const Framework::Optimizer& optimizer = framework.optimizer;
    if (stage.memory.training.Offloads(Offloaded::kOptimizer)) {
      return HostOptimizerTime();
    }
    if (!zero) {
      return std::max(stage.optimizer_s + stage.expert_optimizer_s,
                      framework.dispatch.dispatch_s * stage.tensors *
                          optimizer.step_kernels);
    }
    return std::max(stage.optimizer_s * rank.OptimizerShare() +
                        stage.expert_optimizer_s / rank.ExpertShardRanks(),
                    framework.dispatch.dispatch_s * stage.tensors *
                        optimizer.zero_step_kernels);
  }

  // With the optimizer on the host, the gradients of every microbatch arrive
  // there, processors update the shards of all GPUs of a host, and the weights
  // return. Offloaded parameters come for every forward and backward pass
  // instead. What travels meanwhile hides behind the passes, except where
  // gradients wait for their end (overlap_zero_comm).
  [[nodiscard]] double HostOptimizerTime() const {
    constexpr double kPasses = 2.0;
    const Training& training = stage.memory.training;
    const double elements =
        zero ? stage.memory.parameters / rank.ShardRanks() +
                   stage.memory.expert_parameters / rank.ExpertShardRanks()
             : stage.memory.parameters + stage.memory.expert_parameters;
    const double e = gpu.element_bytes();
    const double rate = cluster.gpu.host_bytes_per_s;
    const bool parameters = training.Offloads(Offloaded::kParameters);
    const double passes_s = stage.end_s - stage.begin_s;
    const double down_s =
        shared.microbatches * elements * framework.GradientBytes(e) / rate;
    const double up_s =
        parameters ? kPasses * shared.microbatches *
                         (elements * (behavior.masters_only ? 4.0 : e) +
                          stage.memory.frozen_bytes /
                              (zero ? rank.ShardRanks() : 1.0)) /
                         rate
                   : 0.0;
    const double exposed_s =
        std::max({0.0, up_s - passes_s,
                  down_s - (shared.overlap_zero_comm ? passes_s : 0.0)});
    return exposed_s + (parameters ? 0.0 : elements * e / rate) +
           elements * cluster.launched_gpus() /
               framework.optimizer.host_optimizer_elements_per_s;
  }
};

}  // namespace

std::vector<StageSync> SynchronizeStages(const Problem& problem,
                                         const ParallelConfig& shared,
                                         const std::vector<StageCost>& stages) {
  const ShardingBehavior behavior = BehaviorOf(problem.framework, shared);
  return common::Map(stages, [&](const StageCost& stage) {
    return StageEnd{problem, shared, behavior, stage}.Synchronize();
  });
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
  if (config.zero_stage == 0 || BehaviorOf(framework, config).by_module ||
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

TimeBreakdown TimeOf(const StageCost& stage, const AfterPipeline& after) {
  TimeBreakdown time = stage.time;
  time.bubble_s += after.wait_s;
  time.data_s += after.reduce_s + after.gather_s;
  time.optimizer_s = after.optimizer_s;
  time.overhead_s += after.overhead_s;
  return time;
}

AfterPipeline AfterPipelineOf(const Problem& problem,
                              const ParallelConfig& shared,
                              const std::vector<StageCost>& stages,
                              const StageSync& sync, std::size_t stage) {
  return StageEnd{problem, shared, BehaviorOf(problem.framework, shared),
                  stages[stage]}
      .After(sync, std::max(stages.front().end_s, stages.back().end_s));
}

StepReport FinishStep(const Problem& problem, const ParallelConfig& shared,
                      const std::vector<StageCost>& stages,
                      const std::vector<StageSync>& syncs) {
  const ShardingBehavior behavior = BehaviorOf(problem.framework, shared);
  StepReport report;
  const double table_begin_s =
      std::max(stages.front().end_s, stages.back().end_s);
  double most_s = -1.0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const StageEnd end{problem, shared, behavior, stages[s]};
    const AfterPipeline after = end.After(syncs[s], table_begin_s);
    end.AddTime(after, s == 0, report);
    AddPeak(problem, shared, behavior, stages[s].memory, s == 0, report);
    if (const double busy_s = end.BusyTime(after); busy_s > most_s) {
      most_s = busy_s;
      report.busiest = TimeOf(stages[s], after);
    }
  }
  report.busiest.bubble_s += report.step_time_s - report.busiest.Total();
  report.busiest.overhead_s += report.retry_s;
  report.time.overhead_s += report.retry_s;
  report.step_time_s += report.retry_s;
  return report;
}

}  // namespace trials
