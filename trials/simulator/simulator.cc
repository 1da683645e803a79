#include "trials/simulator/simulator.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <stdexcept>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "trials/simulator/collectives.h"
#include "trials/simulator/memo.h"
#include "trials/simulator/stage_model.h"

namespace trials {
namespace {

constexpr double kMega = 1024.0 * 1024.0;

// What follows the pipeline on every rank of one stage.
struct StageSync {
  SyncTime reduce;
  GatherPlan gather;
};

// Throws unless the configuration is one of this problem.
void Check(const Workload& workload,
           const Cluster& cluster,
           const ParallelConfig& config) {
  const auto fail = [&](const std::string& rule) {
    throw std::invalid_argument(fmt::format("{}: {}", ToString(config), rule));
  };
  if (std::min({config.dp,
                config.tp,
                config.pp,
                config.microbatches,
                config.model_chunks}) < 1 ||
      config.micro_batch_size < 0) {
    fail("sizes must be at least 1");
  }
  if (config.dp * config.tp * config.pp != cluster.gpus()) {
    fail(fmt::format(
        "dp*tp*pp must be the {} GPUs of {}", cluster.gpus(), cluster.name));
  }
  const int slices = config.dp * config.microbatches;
  if (config.micro_batch_size == 0 && workload.batch_size % slices != 0) {
    fail(fmt::format("dp * microbatches must divide the batch of {}",
                     workload.batch_size));
  }
  if (config.micro_batch_size > 0 &&
      config.micro_batch_size * slices != workload.batch_size) {
    fail(fmt::format(
        "dp * microbatches * micro_batch_size must be the batch of {}",
        workload.batch_size));
  }
  if (config.pp * config.model_chunks > workload.model.layers) {
    fail(fmt::format("pp * model_chunks must not exceed the {} layers",
                     workload.model.layers));
  }
  if (workload.model.attention_heads % config.tp != 0) {
    fail(fmt::format("tp must divide the {} attention heads",
                     workload.model.attention_heads));
  }
  if (config.model_chunks > 1 && config.microbatches % config.pp != 0) {
    fail(
        "interleaving needs microbatches to be a multiple of pp, or it "
        "deadlocks");
  }
  if (config.zero_stage < 0 || config.zero_stage > 3) {
    fail("zero_stage must be 0, 1, 2 or 3");
  }
  if (config.ep != 1 || config.cp != 1) {
    fail("expert and context parallelism are not simulated: use ep=1, cp=1");
  }
}

}  // namespace

class Simulator::Impl {
 public:
  Impl(Workload workload, Cluster cluster, const Framework& framework)
      : workload_(std::move(workload)),
        cluster_(std::move(cluster)),
        framework_(framework),
        gpu_(cluster_.gpu, workload_.precision, framework_.launch_s) {}

  StepReport Simulate(const ParallelConfig& config) {
    Check(workload_, cluster_, config);
    const std::vector<StageRecord>& stages = Stages(config);
    const std::vector<StageSync>& syncs = Syncs(config, stages);
    StepReport report;
    report.capacity_bytes = cluster_.gpu.memory_bytes;
    report.states_fit = true;
    for (int s = 0; s < config.pp; ++s) {
      const auto i = static_cast<std::size_t>(s);
      AddTime(config, s, stages, syncs[i], report);
      AddMemory(config, s, stages[i], report);
    }
    report.fits = report.peak_memory_bytes <= report.capacity_bytes;
    return report;
  }

  [[nodiscard]] double SetupTime() const {
    const double weights =
        4.0 * static_cast<double>(ParameterCount(workload_.model));
    return framework_.launch_process_s +
           framework_.launch_per_local_rank_s * cluster_.gpus_per_node +
           framework_.group_init_s +
           framework_.group_init_per_rank_s * cluster_.gpus() +
           weights / framework_.weights_bytes_per_s;
  }

  [[nodiscard]] const Framework& framework() const { return framework_; }

 private:
  const LayerCosts& Layers(const ParallelConfig& config) {
    const double sequences = MicroBatchSize(workload_, config);
    return layers_.Get(
        {config.tp, config.sp ? 1 : 0, static_cast<int>(sequences)}, [&] {
          return ComputeLayerCosts(
              workload_, framework_, gpu_, {sequences, config.tp, config.sp});
        });
  }

  const std::vector<StageRecord>& Stages(const ParallelConfig& config) {
    const bool sharded = config.zero_stage == 3;
    const std::array<int, 13> key = {
        config.dp,
        config.tp,
        config.pp,
        config.microbatches,
        config.model_chunks,
        config.micro_batch_size,
        config.sp ? 1 : 0,
        config.overlap_p2p ? 1 : 0,
        config.grad_checkpoint ? 1 : 0,
        sharded ? 1 : 0,
        sharded ? config.zero_bucket_mb : 0,
        sharded && config.overlap_zero_comm ? 1 : 0,
        sharded && config.overlap_zero_allgather ? 1 : 0};
    return stages_.Get(key, [&] {
      return ModelStages(
          workload_, cluster_, framework_, gpu_, Layers(config), config);
    });
  }

  // DDP and its buckets exist without ZeRO and without a pipeline only; with
  // a pipeline gradients are complete only after the last microbatch, so
  // nothing overlaps. ZeRO 3 communicates inside the actions.
  const std::vector<StageSync>& Syncs(const ParallelConfig& config,
                                      const std::vector<StageRecord>& stages) {
    const bool zero = config.zero_stage > 0;
    const bool whole = config.pp == 1;
    SyncOptions options;
    options.kind = config.zero_stage == 2 ? SyncKind::kReduceScatter
                                          : SyncKind::kAllReduce;
    const int bucket_mb =
        zero ? config.zero_bucket_mb : (whole ? config.dp_bucket_mb : 0);
    options.bucket_bytes = bucket_mb * kMega;
    options.overlap = whole && (!zero || config.overlap_zero_comm);
    // What backward takes matters only where communication hides behind it.
    const std::array<int, 11> key = {
        config.dp,
        config.tp,
        config.pp,
        config.model_chunks,
        config.zero_stage,
        bucket_mb,
        options.overlap ? 1 : 0,
        options.overlap || config.zero_stage == 2 ? config.microbatches : 0,
        options.overlap ? config.micro_batch_size : 0,
        config.grad_checkpoint ? 1 : 0,
        config.sp ? 1 : 0};
    return syncs_.Get(key, [&] {
      std::vector<StageSync> syncs(stages.size());
      if (config.zero_stage == 3) {
        return syncs;
      }
      const GroupLink link =
          RingLink(cluster_, DpGroups({config.dp, config.tp, config.pp}));
      for (std::size_t s = 0; s < stages.size(); ++s) {
        syncs[s].reduce =
            ReduceGradients(stages[s].modules, link, options, framework_);
        if (config.zero_stage == 2) {
          // A rank keeps its part of the gradients only, so those of every
          // microbatch are scattered before the next one's arrive.
          syncs[s].reduce.exposed_s *= config.microbatches;
          syncs[s].reduce.overhead_s *= config.microbatches;
        }
        if (zero) {
          syncs[s].gather = PlanGather(
              stages[s].modules, link, options.bucket_bytes, framework_);
        }
      }
      return syncs;
    });
  }

  // The all-reduce of a tied embedding table between first and last stage.
  double SharedTableTime(const ParallelConfig& config) {
    const double elements = SharedTableElements(workload_, config);
    if (elements == 0.0) {
      return 0.0;
    }
    return shared_tables_.Get({config.dp, config.tp, config.pp}, [&] {
      const RankGrid grid{config.dp, config.tp, config.pp};
      return AllReduceTime(
          RingLink(cluster_, StagePairs(grid, 0, config.pp - 1)),
          elements * gpu_.element_bytes());
    });
  }

  // Adds what follows the pipeline to stage s, and keeps it if it ends last.
  void AddTime(const ParallelConfig& config,
               int s,
               const std::vector<StageRecord>& stages,
               const StageSync& sync,
               StepReport& report) {
    const StageRecord& stage = stages[static_cast<std::size_t>(s)];
    double bubble_s = 0.0;
    double data_s = sync.reduce.exposed_s;
    if (s == 0 || s == config.pp - 1) {
      const double table_s = SharedTableTime(config);
      if (table_s > 0.0) {  // the two ends wait for each other
        const double both_s = std::max(stages.front().timeline.end_s,
                                       stages.back().timeline.end_s);
        bubble_s = both_s - stage.timeline.end_s;
        data_s += table_s;
      }
    }
    double overhead_s = sync.reduce.overhead_s + framework_.step_overhead_s;
    const bool sharded = config.zero_stage > 0;
    // The step's casts and copies are issued one by one while the GPU has
    // nothing else to do.
    const double dispatch_s =
        framework_.dispatch_s * stage.tensors *
        (sharded ? framework_.zero_step_kernels : framework_.step_kernels);
    const double optimizer_s =
        std::max(stage.optimizer_s / (sharded ? config.dp : 1), dispatch_s);
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
    report.critical_rank = s * config.tp;
    report.parts = stage.parts;
    report.parts.bubble_s += bubble_s;
    report.parts.data_s += data_s;
    report.parts.optimizer_s = optimizer_s;
    report.parts.overhead_s += overhead_s;
  }

  void AddMemory(const ParallelConfig& config,
                 int s,
                 const StageRecord& stage,
                 StepReport& report) const {
    const MemoryParts memory =
        ComputeMemory(config, stage.memory, gpu_.element_bytes(), framework_);
    const double total = memory.Total();
    if (total > report.peak_memory_bytes) {
      report.peak_memory_bytes = total;
      report.memory = memory;
      report.peak_rank = s * config.tp;
    }
    if (StateBytes(config, stage.memory, gpu_.element_bytes(), framework_) >
        report.capacity_bytes) {
      report.states_fit = false;
    }
  }

  Workload workload_;
  Cluster cluster_;
  Framework framework_;
  GpuModel gpu_;
  Memo<3, LayerCosts> layers_;
  Memo<13, std::vector<StageRecord>> stages_;
  Memo<11, std::vector<StageSync>> syncs_;
  Memo<3, double> shared_tables_;
};

Simulator::Simulator(Workload workload, Cluster cluster, Options options)
    : impl_(std::make_unique<Impl>(
          std::move(workload), std::move(cluster), options.framework)) {}
Simulator::Simulator(Workload workload, Cluster cluster)
    : Simulator(std::move(workload), std::move(cluster), Options{}) {}
Simulator::~Simulator() = default;
Simulator::Simulator(Simulator&&) noexcept = default;
Simulator& Simulator::operator=(Simulator&&) noexcept = default;

StepReport Simulator::Simulate(const ParallelConfig& config) const {
  return impl_->Simulate(config);
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
