#include "trials/simulator/simulator.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <stdexcept>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "trials/constraints.h"
#include "trials/simulator/collectives.h"
#include "trials/simulator/memo.h"
#include "trials/simulator/stage_balance.h"
#include "trials/simulator/stage_model.h"

namespace trials {
namespace {

constexpr double kMega = 1024.0 * 1024.0;
constexpr int kWholeMegabytes = 1 << 30;  // more than any model's gradients

// What follows the pipeline on every rank of one stage.
struct StageSync {
  SyncTime reduce;
  GatherPlan gather;
};

}  // namespace

class Simulator::Impl {
 public:
  Impl(Workload workload,
       std::vector<Cluster> pools,
       const Framework& framework)
      : workload_(std::move(workload)),
        pools_(std::move(pools)),
        framework_(framework) {
    if (pools_.empty()) {
      throw std::invalid_argument(
          "a simulator needs at least one cluster to run on");
    }
    for (const Cluster& pool : pools_) {
      gpus_.emplace_back(pool.gpu, workload_.precision, framework_.launch_s);
    }
  }

  StepReport Simulate(const ParallelConfig& config) {
    if (const std::string problem = ConfigProblem(
            config,
            {.workload = workload_,
             .gpus = pools_.front().gpus(),
             .replicated_kv_heads = true,
             .unfilled_stages = framework_.full_pipeline ? 1 : config.pp});
        !problem.empty()) {
      throw std::invalid_argument(
          fmt::format("{}: {}", ToString(config), problem));
    }
    const PlanLinks& links = Links(config);
    const std::vector<StageRecord>& stages = Stages(config, links);
    const std::vector<StageSync>& syncs = Syncs(config, links, stages);
    Totals totals(stages, SharedTableTime(config.pp, config.tp, links));
    for (int s = 0; s < config.pp; ++s) {
      const auto i = static_cast<std::size_t>(s);
      AddTime(config, s, stages[i], syncs[i], links, totals);
      AddMemory(config,
                pools_.front(),
                gpus_.front(),
                stages[i],
                links,
                s,
                totals.report);
    }
    AddAllocatorRetries(config.microbatches, totals.report);
    return totals.report;
  }

  StepReport Simulate(const Plan& plan) {
    CheckPlan(plan, workload_, pools_);
    const bool grid = StagesAlike(plan) && plan.stages.front().pool == 0;
    const PlanLinks placed =
        grid ? PlanLinks{} : PlacePlan(pools_, plan, Placement());
    const PlanLinks& links = grid ? Links(StageConfig(plan, 0)) : placed;
    const std::vector<StageRecord> stages = Model(plan, links);
    const PlanStage& first = plan.stages.front();
    const PlanStage& last = plan.stages.back();
    Totals totals(
        stages,
        SharedTableTime(plan.shared.pp, std::min(first.tp, last.tp), links));
    for (int s = 0; s < plan.shared.pp; ++s) {
      const auto i = static_cast<std::size_t>(s);
      const ParallelConfig config = StageConfig(plan, s);
      const auto pool = static_cast<std::size_t>(plan.stages[i].pool);
      const StageSync sync =
          SyncOf(config, links.stages[i], stages[i], gpus_[pool]);
      AddTime(config, s, stages[i], sync, links, totals);
      AddMemory(config,
                pools_[pool],
                gpus_[pool],
                stages[i],
                links,
                s,
                totals.report);
    }
    AddAllocatorRetries(plan.shared.microbatches, totals.report);
    return totals.report;
  }

  [[nodiscard]] double SetupTime() const {
    const Cluster& cluster = pools_.front();
    const double weights =
        4.0 * static_cast<double>(ParameterCount(workload_.model));
    return framework_.launch_process_s +
           framework_.launch_per_local_rank_s * cluster.gpus_per_node +
           framework_.group_init_s +
           framework_.group_init_per_rank_s * cluster.gpus() +
           weights / framework_.weights_bytes_per_s;
  }

  [[nodiscard]] const Framework& framework() const { return framework_; }

 private:
  // The report in the making, and what the stages share.
  struct Totals {
    Totals(const std::vector<StageRecord>& stages, double shared_table_s)
        : table_s(shared_table_s) {
      report.states_fit = true;
      report.fits = true;
      both_s =
          std::max(stages.front().timeline.end_s, stages.back().timeline.end_s);
    }
    StepReport report;
    double table_s = 0.0;  // all-reduce of a tied embedding table
    double both_s = 0.0;   // when first and last stage are there for it
  };

  const LayerCosts& Layers(const Shard& shard, int pool) {
    const std::array<int, 6> key = {pool,
                                    shard.tp,
                                    shard.sp ? 1 : 0,
                                    static_cast<int>(shard.sequences),
                                    shard.cp,
                                    shard.ep};
    return layers_.Get(key, [&] {
      return ComputeLayerCosts(
          workload_, framework_, gpus_[static_cast<std::size_t>(pool)], shard);
    });
  }

  [[nodiscard]] Plan PlanOf(const ParallelConfig& config) const {
    const int layers = workload_.model.layers;
    return framework_.balance_stages
               ? UniformPlan(config,
                             BalanceLayers(layers,
                                           BlocksInHead(workload_.model),
                                           config.pp * config.model_chunks))
               : UniformPlan(config, layers);
  }

  [[nodiscard]] PlacementOptions Placement() const {
    return {framework_.pipeline_outermost,
            framework_.fsdp && framework_.shard_within_host};
  }

  const PlanLinks& Links(const ParallelConfig& config) {
    const std::array<int, 5> key = {
        config.dp, config.tp, config.pp, config.cp, config.ep};
    return links_.Get(
        key, [&] { return PlacePlan(pools_, PlanOf(config), Placement()); });
  }

  std::vector<StageRecord> Model(const Plan& plan, const PlanLinks& links) {
    StageInputs inputs{workload_, framework_, plan, links, {}, {}};
    for (int s = 0; s < plan.shared.pp; ++s) {
      const ParallelConfig config = StageConfig(plan, s);
      const int pool = plan.stages[static_cast<std::size_t>(s)].pool;
      inputs.gpus.push_back(&gpus_[static_cast<std::size_t>(pool)]);
      inputs.layers.push_back(&Layers({MicroBatchSize(workload_, config),
                                       config.tp,
                                       config.sp,
                                       config.cp,
                                       config.ep},
                                      pool));
    }
    return ModelStages(inputs);
  }

  const std::vector<StageRecord>& Stages(const ParallelConfig& config,
                                         const PlanLinks& links) {
    const bool sharded = config.zero_stage == 3;
    const std::array<int, 15> key = {
        config.dp,
        config.tp,
        config.pp,
        config.cp,
        config.ep,
        config.microbatches,
        config.model_chunks,
        config.micro_batch_size,
        config.sp ? 1 : 0,
        config.overlap_p2p ? 1 : 0,
        config.grad_checkpoint,
        sharded ? 1 : 0,
        sharded ? config.zero_bucket_mb : 0,
        sharded && config.overlap_zero_comm ? 1 : 0,
        sharded && config.overlap_zero_allgather ? 1 : 0};
    return stages_.Get(key, [&] { return Model(PlanOf(config), links); });
  }

  // DDP and its buckets exist without ZeRO and without a pipeline only; with
  // a pipeline gradients are complete only after the last microbatch, so
  // nothing overlaps. ZeRO 3 communicates inside the actions.
  [[nodiscard]] int BucketMegabytes(const ParallelConfig& config) const {
    if (config.zero_stage > 0) {
      return framework_.fsdp ? 0 : config.zero_bucket_mb;
    }
    if (!framework_.reduce_in_backward) {
      return kWholeMegabytes;
    }
    return config.pp == 1 ? config.dp_bucket_mb : 0;
  }
  [[nodiscard]] bool Overlaps(const ParallelConfig& config) const {
    return config.pp == 1 && framework_.reduce_in_backward &&
           (config.zero_stage == 0 || config.overlap_zero_comm);
  }

  const std::vector<StageSync>& Syncs(const ParallelConfig& config,
                                      const PlanLinks& links,
                                      const std::vector<StageRecord>& stages) {
    // What backward takes matters only where communication hides behind it.
    const bool overlap = Overlaps(config);
    const std::array<int, 13> key = {
        config.dp,
        config.tp,
        config.pp,
        config.cp,
        config.ep,
        config.model_chunks,
        config.zero_stage,
        BucketMegabytes(config),
        overlap ? 1 : 0,
        overlap || config.zero_stage == 2 ? config.microbatches : 0,
        overlap ? config.micro_batch_size : 0,
        config.grad_checkpoint,
        config.sp ? 1 : 0};
    return syncs_.Get(key, [&] {
      std::vector<StageSync> syncs;
      for (std::size_t s = 0; s < stages.size(); ++s) {
        syncs.push_back(
            SyncOf(config, links.stages[s], stages[s], gpus_.front()));
      }
      return syncs;
    });
  }

  [[nodiscard]] StageSync SyncOf(const ParallelConfig& config,
                                 const StageLinks& links,
                                 const StageRecord& stage,
                                 const GpuModel& gpu) const {
    StageSync sync;
    if (config.zero_stage == 3) {
      return sync;
    }
    SyncOptions options;
    options.kind = config.zero_stage == 2 ? SyncKind::kReduceScatter
                                          : SyncKind::kAllReduce;
    options.bucket_bytes = BucketMegabytes(config) * kMega;
    if (framework_.fsdp && config.zero_stage > 0) {  // a unit per module
      options.bucket_bytes = framework_.GradientBytes(gpu.element_bytes()) *
                             stage.memory.largest_module;
    }
    options.overlap = Overlaps(config);
    SyncOptions sharded = options;
    if (config.zero_stage == 2) {
      sharded.across = links.shards.across;
    }
    AddSync(config,
            sharded,
            stage.modules,
            config.zero_stage == 2 ? links.shards.within : links.dp,
            gpu,
            sync);
    AddSync(config, options, stage.expert_modules, links.expert_dp, gpu, sync);
    if (config.zero_stage == 2) {
      // A rank keeps its part of the gradients only, so those of every
      // microbatch are scattered before the next one's arrive.
      sync.reduce.exposed_s *= config.microbatches;
      sync.reduce.overhead_s *= config.microbatches;
    }
    return sync;
  }

  void AddSync(const ParallelConfig& config,
               const SyncOptions& options,
               const std::vector<SyncModule>& modules,
               const GroupLink& link,
               const GpuModel& gpu,
               StageSync& sync) const {
    if (modules.empty()) {
      return;
    }
    const SyncTime reduce = ReduceGradients(modules, link, options, framework_);
    sync.reduce.exposed_s += reduce.exposed_s;
    sync.reduce.overhead_s += reduce.overhead_s;
    if (config.zero_stage > 0) {
      const double e = gpu.element_bytes();
      const GatherPlan gather = PlanGather(modules,
                                           link,
                                           options.bucket_bytes,
                                           framework_,
                                           e / framework_.GradientBytes(e));
      sync.gather.total_s += gather.total_s;
      sync.gather.first_s = std::max(sync.gather.first_s, gather.first_s);
      sync.gather.overhead_s += gather.overhead_s;
    }
  }

  // The all-reduce of a tied embedding table between first and last stage.
  [[nodiscard]] double SharedTableTime(int stages,
                                       int tp,
                                       const PlanLinks& links) const {
    const double elements = SharedTableElements(workload_, stages, tp);
    if (elements == 0.0) {
      return 0.0;
    }
    const double bytes =
        framework_.GradientBytes(gpus_.front().element_bytes());
    return AllReduceTime(links.ends, elements * bytes);
  }
  // Adds what follows the pipeline to stage s, and keeps it if it ends last.
  void AddTime(const ParallelConfig& config,
               int s,
               const StageRecord& stage,
               const StageSync& sync,
               const PlanLinks& links,
               Totals& totals) const {
    StepReport& report = totals.report;
    double bubble_s = 0.0;
    double data_s = sync.reduce.exposed_s;
    // The two ends wait for each other.
    if (totals.table_s > 0.0 && (s == 0 || s == config.pp - 1)) {
      bubble_s = totals.both_s - stage.timeline.end_s;
      data_s += totals.table_s;
    }
    double overhead_s = sync.reduce.overhead_s + framework_.step_overhead_s;
    const bool sharded = config.zero_stage > 0;
    // The step's casts and copies are issued one by one while the GPU has
    // nothing else to do.
    const double dispatch_s =
        framework_.dispatch_s * stage.tensors *
        (sharded ? framework_.zero_step_kernels : framework_.step_kernels);
    const double shards = sharded ? ShardRanks(config, stage.memory) : 1.0;
    const double optimizer_s = std::max(
        stage.optimizer_s / shards +
            stage.expert_optimizer_s / (sharded ? shards / config.ep : 1.0),
        dispatch_s);
    if (sharded && config.zero_stage < 3) {
      const SyncTime gather =
          ExposeGather(sync.gather,
                       config.overlap_zero_allgather,
                       stage.timeline.begin_s + stage.first_forward_s,
                       framework_);
      data_s += gather.exposed_s;
      overhead_s += gather.overhead_s;
    }
    const double end_s =
        stage.timeline.end_s + bubble_s + data_s + optimizer_s + overhead_s;
    if (s > 0 && end_s <= report.step_time_s) {
      return;
    }
    report.step_time_s = end_s;
    report.critical_rank = links.stages[static_cast<std::size_t>(s)].first_rank;
    report.parts = stage.parts;
    report.parts.bubble_s += bubble_s;
    report.parts.data_s += data_s;
    report.parts.optimizer_s = optimizer_s;
    report.parts.overhead_s += overhead_s;
  }

  void AddAllocatorRetries(int microbatches, StepReport& report) const {
    if (report.short_of_memory) {
      const double time_s = microbatches * framework_.allocator_retry_s;
      report.parts.overhead_s += time_s;
      report.step_time_s += time_s;
    }
  }

  // Keeps the rank that fills its GPU most.
  void AddMemory(const ParallelConfig& config,
                 const Cluster& cluster,
                 const GpuModel& gpu,
                 const StageRecord& stage,
                 const PlanLinks& links,
                 int s,
                 StepReport& report) const {
    const double capacity = framework_.usable_memory * cluster.gpu.memory_bytes;
    const MemoryParts wanted =
        ComputeMemory(config, stage.memory, gpu.element_bytes(), framework_);
    const MemoryParts memory = WhenFull(wanted, capacity);
    if (wanted.Total() >
        framework_.allocator_pressure * cluster.gpu.memory_bytes) {
      report.short_of_memory = true;
    }
    report.last_stage_memory = memory;  // stages come in order
    if (s == 0) {
      report.first_stage_memory = memory;
    }
    const double total = memory.Total();
    if (s == 0 ||
        total * report.capacity_bytes > report.peak_memory_bytes * capacity) {
      report.peak_memory_bytes = total;
      report.capacity_bytes = capacity;
      report.memory = memory;
      report.peak_rank = links.stages[static_cast<std::size_t>(s)].first_rank;
      report.fits = total <= capacity;
    }
    if (StateBytes(config, stage.memory, gpu.element_bytes(), framework_) >
        capacity) {
      report.states_fit = false;
    }
  }

  Workload workload_;
  std::vector<Cluster> pools_;
  Framework framework_;
  std::vector<GpuModel> gpus_;  // of each pool
  Memo<6, LayerCosts> layers_;
  Memo<5, PlanLinks> links_;
  Memo<15, std::vector<StageRecord>> stages_;
  Memo<13, std::vector<StageSync>> syncs_;
};

Simulator::Simulator(Workload workload,
                     std::vector<Cluster> pools,
                     Options options)
    : impl_(std::make_unique<Impl>(
          std::move(workload), std::move(pools), options.framework)) {}
Simulator::Simulator(Workload workload, Cluster cluster, Options options)
    : Simulator(std::move(workload),
                std::vector<Cluster>{std::move(cluster)},
                options) {}
Simulator::Simulator(Workload workload, Cluster cluster)
    : Simulator(std::move(workload), std::move(cluster), Options{}) {}
Simulator::~Simulator() = default;
Simulator::Simulator(Simulator&&) noexcept = default;
Simulator& Simulator::operator=(Simulator&&) noexcept = default;

StepReport Simulator::Simulate(const ParallelConfig& config) const {
  return impl_->Simulate(config);
}

StepReport Simulator::Simulate(const Plan& plan) const {
  return impl_->Simulate(plan);
}

double Simulator::SetupTime() const { return impl_->SetupTime(); }

Measurement Simulator::Run(const TrialRequest& request) {
  const StepReport report = impl_->Simulate(request.config);
  const Framework& framework = impl_->framework();
  Measurement measurement;
  measurement.setup_s = impl_->SetupTime();
  measurement.duration_s = measurement.setup_s;
  if (!report.fits) {
    measurement.outcome = Outcome::kOutOfMemory;
    measurement.message = fmt::format(
        "out of memory {}: rank {} needs {:.2f} GB of {:.2f} GB, most of it "
        "for {}",
        report.states_fit ? "in the first step" : "during set-up",
        report.peak_rank,
        report.peak_memory_bytes / 1e9,
        report.capacity_bytes / 1e9,
        LargestPart(report.memory));
    measurement.duration_s +=
        (report.states_fit ? report.step_time_s : 0.0) + framework.failure_s;
    return measurement;
  }
  measurement.outcome = Outcome::kCompleted;
  measurement.peak_memory_bytes = report.peak_memory_bytes;
  for (int step = 0; step < request.max_steps; ++step) {
    measurement.step_times_s.push_back(report.step_time_s);
    measurement.duration_s += report.step_time_s;
    if (request.on_step && !request.on_step(report.step_time_s) &&
        step + 1 < request.max_steps) {
      measurement.outcome = Outcome::kTerminatedEarly;
      break;
    }
  }
  measurement.duration_s += framework.teardown_s;
  return measurement;
}

std::optional<double> Simulator::ExactThroughput(
    const ParallelConfig& config) const {
  const StepReport report = impl_->Simulate(config);
  return report.fits ? 1.0 / report.step_time_s : 0.0;
}

}  // namespace trials
