#include "trials/simulator/step.h"

#include <algorithm>
#include <cstddef>
#include <span>

namespace trials {
namespace {

// Time of the optimizer on the host: the gradients of a rank's shard arrive,
// during the backward pass if it overlaps them, processors update the shards of
// all GPUs of a host, and the weights return.
double OffloadedOptimizerTime(const Problem& problem,
                              const ParallelConfig& shared,
                              const StageCost& stage) {
  const Framework& framework = problem.framework;
  const auto gpu_type = static_cast<std::size_t>(stage.gpu_type);
  const double shards = ShardRanks(shared, stage.memory, framework);
  const double elements = stage.memory.parameters / shards +
                          stage.memory.expert_parameters * shared.ep / shards;
  const double e = problem.gpus[gpu_type].element_bytes();
  const double bytes =
      elements *
      (e + (shared.overlap_zero_comm ? 0.0 : framework.GradientBytes(e)));
  return bytes / framework.optimizer.host_bytes_per_s +
         elements * problem.gpu_types[gpu_type].gpus_per_node /
             framework.optimizer.host_optimizer_elements_per_s;
}

// Time of the optimizer. The casts and copies of its step are issued one by one
// while the GPU has nothing else to do.
double OptimizerTime(const Problem& problem, const ParallelConfig& shared,
                     const StageCost& stage) {
  const Framework& framework = problem.framework;
  const bool zero = shared.zero_stage > 0;
  if (zero && framework.optimizer.offload_optimizer) {
    return OffloadedOptimizerTime(problem, shared, stage);
  }
  const double dispatch_s = framework.dispatch.dispatch_s * stage.tensors *
                            (zero ? framework.optimizer.zero_step_kernels
                                  : framework.optimizer.step_kernels);
  const double share =
      zero ? OptimizerShare(shared, stage.memory, framework) : 1.0;
  const double expert_share =
      zero ? shared.ep / ShardRanks(shared, stage.memory, framework) : 1.0;
  return std::max(
      stage.optimizer_s * share + stage.expert_optimizer_s * expert_share,
      dispatch_s);
}

// The first rank of a stage. Ranks fill the GPU types in their order.
int FirstRank(const Problem& problem, const StageCost& stage) {
  return GpusOf(std::span(problem.gpu_types)
                    .first(static_cast<std::size_t>(stage.gpu_type))) +
         stage.links.first_rank;
}

// Adds the end of the step of a stage to the report, if the stage ends last.
// `table_begin_s`: both holders of a tied embedding table have finished.
void AddTime(const Problem& problem, const ParallelConfig& shared,
             const StageCost& stage, const StageSync& sync,
             double table_begin_s, bool first, StepReport& report) {
  const Framework& framework = problem.framework;
  double bubble_s = 0.0;
  double data_s = sync.reduce.exposed_s;
  if (stage.shared_table_s > 0.0) {
    bubble_s = table_begin_s - stage.end_s;
    data_s += stage.shared_table_s;
  }
  double overhead_s =
      sync.reduce.overhead_s + framework.dispatch.step_overhead_s;
  const double optimizer_s = OptimizerTime(problem, shared, stage);
  if (shared.zero_stage > 0 && shared.zero_stage < 3) {
    const SyncTime gather =
        ExposeGather(sync.gather, shared.overlap_zero_allgather,
                     stage.begin_s + stage.first_forward_s);
    // fully_shard frees the gathered parameters after the backward pass of a
    // microbatch; stages of a pipeline keep them until the last one.
    const int gathers =
        framework.sharding.fsdp && shared.zero_stage == 2 && shared.pp == 1
            ? shared.microbatches
            : 1;
    data_s += gathers * gather.exposed_s;
    overhead_s += gathers * gather.overhead_s;
  }
  const double end_s =
      stage.end_s + bubble_s + data_s + optimizer_s + overhead_s;
  if (!first && end_s <= report.step_time_s) {
    return;
  }
  report.step_time_s = end_s;
  report.critical_rank = FirstRank(problem, stage);
  report.time = stage.time;
  report.time.bubble_s += bubble_s;
  report.time.data_s += data_s;
  report.time.optimizer_s = optimizer_s;
  report.time.overhead_s += overhead_s;
}

// Adds the memory of a stage, which replaces the peak if it fills its GPU more.
void AddMemory(const Problem& problem, const ParallelConfig& shared,
               const StageCost& stage, bool first, StepReport& report) {
  const Framework& framework = problem.framework;
  const auto gpu_type = static_cast<std::size_t>(stage.gpu_type);
  const double gpu_bytes = problem.gpu_types[gpu_type].gpu.memory_bytes;
  const double element_bytes = problem.gpus[gpu_type].element_bytes();
  const double capacity = framework.allocator.usable_memory * gpu_bytes;
  const MemoryBreakdown wanted =
      ComputeMemory(shared, stage.memory, element_bytes, framework);
  const MemoryBreakdown memory = WhenFull(wanted, capacity);
  if (wanted.Total() > framework.allocator.allocator_pressure * gpu_bytes) {
    report.short_of_memory = true;
  }
  report.last_stage_memory = memory;  // stages come in order
  if (first) {
    report.first_stage_memory = memory;
  }
  const double total = memory.Total();
  if (first ||
      total * report.capacity_bytes > report.peak_memory_bytes * capacity) {
    report.peak_memory_bytes = total;
    report.capacity_bytes = capacity;
    report.memory = memory;
    report.peak_rank = FirstRank(problem, stage);
    report.fits = total <= capacity;
  }
  if (StateBytes(shared, stage.memory, element_bytes, framework) > capacity) {
    report.model_states_fit = false;
  }
}

}  // namespace

StepReport FinishStep(const Problem& problem, const ParallelConfig& shared,
                      const std::vector<StageCost>& stages,
                      const std::vector<StageSync>& syncs) {
  const Framework& framework = problem.framework;
  StepReport report;
  report.model_states_fit = true;
  const double table_begin_s =
      std::max(stages.front().end_s, stages.back().end_s);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    AddTime(problem, shared, stages[s], syncs[s], table_begin_s, s == 0,
            report);
    AddMemory(problem, shared, stages[s], s == 0, report);
  }
  if (report.short_of_memory) {
    const double time_s =
        shared.microbatches * framework.allocator.allocator_retry_s;
    report.time.overhead_s += time_s;
    report.step_time_s += time_s;
  }
  return report;
}

}  // namespace trials
