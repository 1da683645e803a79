#include "trials/simulator/simulator.h"

#include <algorithm>
#include <cstdint>
#include <stdexcept>

#include <fmt/format.h>

#include "trials/constraints.h"
#include "trials/simulator/stage_balance.h"
#include "trials/simulator/stage_memory.h"

namespace trials {
namespace {

// memo[key], computed as compute(key) at the first use of a key. The function
// gets the key and nothing else that varies, so a result cannot depend on a
// value that the key lacks. References stay valid as the map grows, and no map
// is ever iterated: its order cannot reach a result.
template <typename Map, typename Compute>
const typename Map::mapped_type& Memoized(Map& memo,
                                          const typename Map::key_type& key,
                                          const Compute& compute) {
  const auto found = memo.find(key);
  if (found != memo.end()) {
    return found->second;
  }
  return memo.emplace(key, compute(key)).first->second;
}

// The configuration with the default of every knob on which neither the memory
// of stages nor the time of their actions depends.
ParallelConfig ActionKnobs(ParallelConfig config) {
  config = StageCostKnobs(config);
  config.overlap_p2p = ParallelConfig{}.overlap_p2p;
  return config;
}

// The same for LeastMemory.
ParallelConfig LeastMemoryKnobs(ParallelConfig config) {
  constexpr int kSeveral = 2;  // gradients of microbatches are accumulated
  const ParallelConfig defaults;
  config.micro_batch_size = defaults.micro_batch_size;
  config.microbatches = std::min(config.microbatches, kSeveral);
  config.grad_checkpoint = defaults.grad_checkpoint;
  config.overlap_p2p = defaults.overlap_p2p;
  config.dp_bucket_mb = defaults.dp_bucket_mb;
  return config;
}

}  // namespace

std::size_t Simulator::Hash::operator()(const Knobs& c) const {
  std::uint64_t hash = 0x9e3779b97f4a7c15ULL;
  for (const int value :
       {c.dp, c.tp, c.pp, c.cp, c.ep, c.microbatches, c.model_chunks,
        c.zero_stage, c.zero_bucket_mb, c.dp_bucket_mb, c.grad_checkpoint,
        8 * (c.sp > 1 ? 1 : 0) + 4 * c.overlap_p2p + 2 * c.overlap_zero_comm +
            c.overlap_zero_allgather}) {
    hash = (hash ^ static_cast<std::uint32_t>(value)) * 0xff51afd7ed558ccdULL;
    hash ^= hash >> 32;
  }
  return hash;
}

Simulator::Simulator(const Workload& workload, std::vector<Cluster> gpu_types,
                     const Options& options)
    : problem_{workload, std::move(gpu_types), options.framework, {}},
      grids_(options.grids ? options.grids : std::make_shared<PlacedGrids>()) {
  if (problem_.gpu_types.empty()) {
    throw std::invalid_argument(
        "a simulator needs at least one cluster to run on");
  }
  for (const Cluster& gpu_type : problem_.gpu_types) {
    problem_.framework =
        ForWorkload(problem_.framework, workload, gpu_type.gpu);
    problem_.gpus.emplace_back(gpu_type.gpu, workload.precision,
                               problem_.framework.kernels.launch_s);
  }
}
Simulator::Simulator(const Workload& workload, Cluster cluster,
                     const Options& options)
    : Simulator(workload, std::vector<Cluster>{std::move(cluster)}, options) {}
Simulator::Simulator(const Workload& workload, Cluster cluster)
    : Simulator(workload, std::move(cluster), Options{}) {}

Simulator::Simulator(const Simulator& base, const Knobs& knobs)
    : problem_(base.problem_), knobs_(knobs), grids_(base.grids_) {
  problem_.framework = ForConfig(problem_.framework, knobs);
}

const Simulator& Simulator::For(const ParallelConfig& config) const {
  const Knobs knobs = FrameworkKnobs(config);
  if (knobs == knobs_) {
    return *this;
  }
  const auto found = std::ranges::find(others_, knobs, &Simulator::knobs_);
  return found != others_.end() ? *found
                                : others_.emplace_back(Simulator(*this, knobs));
}

void Simulator::CheckConfig(const ParallelConfig& config) const {
  const std::string broken = ConfigProblem(
      config, {.workload = problem_.workload,
               .gpus = GpusOf(problem_.gpu_types),
               .replicated_kv_heads = true,
               .unfilled_stages =
                   problem_.framework.pipeline.full_pipeline ? 1 : config.pp,
               .ends_as_layers = true,
               .whole_experts = problem_.framework.experts.whole_experts});
  if (!broken.empty()) {
    throw InvalidPlan(ToString(config), broken);
  }
}

StepReport Simulator::Simulate(const Plan& plan) const {
  if (const Simulator& own = For(plan.shared); &own != this) {
    return own.Simulate(plan);
  }
  CheckPlan(plan, problem_.workload, problem_.GpusOfTypes());
  const std::vector<StageCost> stages = StageCosts(plan);
  return FinishStep(problem_, plan.shared, stages,
                    SynchronizeStages(problem_, plan.shared, stages));
}

StepReport Simulator::Simulate(const ParallelConfig& config) const {
  if (const Simulator& own = For(config); &own != this) {
    return own.Simulate(config);
  }
  CheckConfig(config);
  const std::vector<StageCost>& stages =
      Memoized(stages_, StageCostKnobs(config),
               [&](const Knobs& knobs) { return StageCosts(PlanOf(knobs)); });
  const std::vector<StageSync>& syncs =
      Memoized(syncs_, StageSyncKnobs(problem_.framework, config),
               [&](const Knobs& knobs) {
                 return SynchronizeStages(problem_, knobs, stages);
               });
  return FinishStep(problem_, config, stages, syncs);
}

Plan Simulator::PlanOf(const ParallelConfig& config) const {
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

const LayerCosts& Simulator::Layers(const Plan& plan, int stage,
                                    double sequences) const {
  const ParallelConfig& shared = plan.shared;
  const PlanStage& own = plan.stages[stage];
  const Shard shard{
      sequences, own.tp,    SplitsTokens(plan, stage),
      shared.cp, shared.ep, problem_.framework.HasWholeExperts(shared.ep)};
  return Memoized(layers_, {own.gpu_type, shard}, [&](const auto& key) {
    return ComputeLayerCosts(problem_.workload, problem_.framework,
                             problem_.gpus[key.first], key.second);
  });
}

PlacementOptions Simulator::PlacementOf() const {
  const Framework& framework = problem_.framework;
  return {framework.pipeline.pipeline_outermost, framework.ShardsWithinHost(),
          framework.sharding.zero_group_ranks, framework.experts.whole_experts};
}

template <typename Visit>
auto Simulator::WithStages(const Plan& plan, const Visit& visit) const {
  const PlacementOptions options = PlacementOf();
  const std::optional<StageGrid> grid = GridOf(plan);
  const PlanLinks placed =
      grid ? PlanLinks{} : PlacePlan(problem_.gpu_types, plan, options);
  const PlanLinks& links =
      grid ? *Memoized(links_, *grid,
                       [&](const StageGrid& key) {
                         return &grids_->Of(key, options, [&] {
                           return PlaceGrid(problem_.gpu_types, key, options);
                         });
                       })
           : placed;
  std::vector<StageContext> stages;
  stages.reserve(plan.stages.size());
  for (int s = 0; s < plan.shared.pp; ++s) {
    const double sequences =
        static_cast<double>(problem_.workload.batch_size) /
        (static_cast<double>(plan.stages[s].dp) * plan.shared.microbatches);
    stages.push_back({problem_, plan, s, problem_.gpus[plan.stages[s].gpu_type],
                      Layers(plan, s, sequences), links.stages[s]});
  }
  return visit(stages, links);
}

std::vector<StageCost> Simulator::StageCosts(const Plan& plan) const {
  if (const Simulator& own = For(plan.shared); &own != this) {
    return own.StageCosts(plan);
  }
  return WithStages(plan, [](const auto& stages, const PlanLinks& links) {
    return ComputeStageCosts(stages, links);
  });
}

SimulatedStep Simulator::Record(const ParallelConfig& config) const {
  if (const Simulator& own = For(config); &own != this) {
    return own.Record(config);
  }
  const StepReport report = Simulate(config);
  const Plan plan = PlanOf(config);
  SimulatedStep record =
      WithStages(plan, [&](const auto& stages, const PlanLinks& links) {
        return RecordStep(problem_, config, report, stages, links);
      });
  record.groups = GroupsOf(*GridOf(plan), PlacementOf());
  return record;
}

MemoryReport Simulator::PeakMemory(const ParallelConfig& config) const {
  if (const Simulator& own = For(config); &own != this) {
    return own.PeakMemory(config);
  }
  CheckConfig(config);
  const std::vector<StageMemory>& stages =
      Memoized(memories_, ActionKnobs(config), [&](const Knobs& knobs) {
        return WithStages(PlanOf(knobs),
                          [](const auto& placed, const PlanLinks& links) {
                            return MemoryOfStages(placed, links);
                          });
      });
  return PeakOf(problem_, config, stages);
}

double Simulator::LeastStepTime(const ParallelConfig& config) const {
  if (const Simulator& own = For(config); &own != this) {
    return own.LeastStepTime(config);
  }
  return Memoized(least_s_, ActionKnobs(config), [&](const Knobs& knobs) {
    return WithStages(PlanOf(knobs),
                      [](const auto& stages, const PlanLinks& /*links*/) {
                        return trials::LeastStepTime(stages);
                      });
  });
}

double Simulator::LeastMemory(const ParallelConfig& config) const {
  if (const Simulator& own = For(config); &own != this) {
    return own.LeastMemory(config);
  }
  return Memoized(least_, LeastMemoryKnobs(config), [&](const Knobs& knobs) {
    constexpr double kSequences = 1.0;  // parameters do not depend on it
    const StageLinks links;
    const Plan plan = PlanOf(knobs);
    const std::vector<Chunk> chunks =
        ChunksOf(plan, problem_.workload.model.dense_layers);
    double least = 0.0;
    for (int s = 0; s < knobs.pp; ++s) {
      StageMemory stage =
          ParametersOfStage({problem_, plan, s, problem_.gpus.front(),
                             Layers(plan, s, kSequences), links},
                            chunks);
      // As many ranks as may hold the same experts.
      stage.expert_ranks =
          std::max(1, knobs.dp * knobs.cp * knobs.tp / knobs.ep);
      stage.channels = 0.0;
      const RankMemory rank{knobs, stage, problem_.gpus.front().element_bytes(),
                            problem_.framework};
      least = std::max(least, HeldBytes(rank.Peak()));
    }
    return least;
  });
}

double Simulator::SetupTime() const {
  const Framework::Launch& launch = problem_.framework.launch;
  // Hosts start their processes at the same time.
  const int gpus_per_node =
      std::ranges::max_element(problem_.gpu_types, {}, &Cluster::gpus_per_node)
          ->gpus_per_node;
  const double weights =
      4.0 * static_cast<double>(ParameterCount(problem_.workload.model));
  return launch.setup_factor *
         (launch.launch_process_s +
          launch.launch_per_local_rank_s * gpus_per_node + launch.group_init_s +
          launch.group_init_per_rank_s * GpusOf(problem_.gpu_types) +
          weights / launch.weights_bytes_per_s);
}

Measurement Simulator::Run(const TrialRequest& request) {
  const Framework::Launch& launch = problem_.framework.launch;
  const StepReport report = Simulate(request.candidate);
  Measurement measurement;
  measurement.setup_s = SetupTime();
  measurement.duration_s = measurement.setup_s;
  if (!report.fits) {
    measurement.outcome = Outcome::kOutOfMemory;
    measurement.message = fmt::format(
        "out of memory {}: rank {} needs {:.2f} GB of {:.2f} GB, most of it "
        "for {}",
        report.model_states_fit ? "in the first step" : "during set-up",
        report.peak_rank, report.peak_memory_bytes / 1e9,
        report.capacity_bytes / 1e9, LargestComponent(report.memory));
    measurement.duration_s +=
        (report.model_states_fit ? report.step_time_s : 0.0) + launch.failure_s;
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
  measurement.duration_s += launch.teardown_s;
  return measurement;
}

std::optional<double> Simulator::ExactThroughput(
    const Candidate& candidate) const {
  const StepReport report = Simulate(candidate);
  return report.fits ? 1.0 / report.step_time_s : 0.0;
}

}  // namespace trials
