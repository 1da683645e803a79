#include "planners/astra/plan_search.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <set>
#include <utility>

#include "common/ranges.h"
#include "trials/constraints.h"
#include "trials/knobs.h"

namespace planners {
namespace {

using trials::ParallelConfig;
using trials::Plan;

// Appends the solutions that begin with these shares of the first types.
void AddSolutions(int stages, int layers, const std::vector<int>& most_stages,
                  std::vector<TypeShare>& shares,
                  std::vector<std::vector<TypeShare>>& all) {
  if (shares.size() == most_stages.size()) {
    if (stages == 0 && layers == 0) {
      all.push_back(shares);
    }
    return;
  }
  const int most = std::min(stages, most_stages[shares.size()]);
  for (int m = 0; m <= most; ++m) {
    const int most_layers = m == 0 ? 0 : layers / m;
    for (int n = m == 0 ? 0 : 1; n <= most_layers; ++n) {
      shares.push_back({m, n});
      AddSolutions(stages - m, layers - m * n, most_stages, shares, all);
      shares.pop_back();
    }
  }
}

// The values of a candidate other than its sizes. Its microbatches become the
// sequences of a microbatch.
struct Values {
  ParallelConfig config;  // dp, pp and microbatches are 1
  int sequences = 1;
  bool pipeline = false;

  friend auto operator<=>(const Values&, const Values&) = default;
};

std::set<Values> ValuesOf(const trials::SearchSpace& space, int batch) {
  std::set<Values> all;
  for (const ParallelConfig& each : space.configs()) {
    const int split = each.dp * each.microbatches;
    if (batch % split != 0) {
      continue;
    }
    Values values{AstraStrategyOf(each), batch / split, each.pp > 1};
    values.config.dp = values.config.pp = values.config.microbatches = 1;
    values.config.micro_batch_size = 0;
    all.insert(values);
  }
  return all;
}

// The search for the values of one candidate.
class Search {
 public:
  Search(const methods::Problem& problem, const AstraMethodOptions& options,
         const PlanSearchOptions& search)
      : problem_(problem),
        model_(problem, options),
        search_(search),
        gpus_(search.gpus > 0 ? search.gpus : problem.machine.gpus()),
        top_(static_cast<std::size_t>(search.top)),
        is_left_out_(AstraRules(problem, options, gpus_)) {}

  PlanSearchResult Run() {
    const std::set<Values> all =
        ValuesOf(*problem_.space, problem_.workload->batch_size);
    partial_ = std::ranges::any_of(all, [](const Values& values) {
      return values.config.grad_checkpoint == trials::kRecomputeFull;
    });
    for (const Values& values : all) {
      AddSizes(values);
    }
    KeepBest();
    return std::move(result_);
  }

 private:
  void AddSizes(const Values& values) {
    const trials::Workload& workload = *problem_.workload;
    const int own = values.config.tp * values.config.cp;
    for (int dp = 1; dp * own <= gpus_; ++dp) {
      ParallelConfig config = values.config;
      config.dp = dp;
      if (gpus_ % (dp * own) != 0 ||
          workload.batch_size % (dp * values.sequences) != 0 ||
          (config.zero_stage > 0 && dp * config.cp == 1)) {
        continue;
      }
      config.pp = gpus_ / (dp * own);
      config.microbatches = workload.batch_size / (dp * values.sequences);
      config = trials::Canonical(config);
      if ((config.pp > 1) != values.pipeline ||
          config.pp > workload.model.layers || !Passes(config)) {
        continue;
      }
      AddShares(config);
    }
  }

  [[nodiscard]] bool Passes(const ParallelConfig& config) const {
    return !is_left_out_(config) &&
           trials::ConfigProblem(config, {.workload = *problem_.workload,
                                          .any_gpus = true,
                                          .replicated_kv_heads = true,
                                          .empty_stages = true,
                                          .unfilled_stages = config.pp})
               .empty();
  }

  // All solutions of Eq. 23 for these sizes.
  void AddShares(const ParallelConfig& config) {
    const std::vector<int> most_stages = common::Map(
        problem_.machine.gpu_types(), [&](const trials::GpuType& gpu_type) {
          return gpu_type.gpus / config.cp / (config.dp * config.tp);
        });
    for (const std::vector<TypeShare>& shares :
         SharesOf(config.pp, problem_.workload->model.layers, most_stages)) {
      AddOrders(config, shares);
    }
  }

  // The stages of a type follow one another; the types in every order.
  void AddOrders(const ParallelConfig& config,
                 const std::vector<TypeShare>& shares) {
    std::vector<int> order;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      if (shares[i].stages > 0) {
        if (shares[i].layers % config.model_chunks != 0) {
          return;  // a virtual stage has the same layers as the others
        }
        order.push_back(static_cast<int>(i));
      }
    }
    do {
      Plan plan;
      plan.shared = config;
      std::vector<std::vector<int>> layers;
      int most_layers = 0;
      for (const int gpu_type : order) {
        const TypeShare& share = shares[gpu_type];
        most_layers = std::max(most_layers, share.layers);
        for (int i = 0; i < share.stages; ++i) {
          plan.stages.push_back(
              {.dp = config.dp, .tp = config.tp, .gpu_type = gpu_type});
          layers.emplace_back(static_cast<std::size_t>(config.model_chunks),
                              share.layers / config.model_chunks);
        }
      }
      SetLayers(layers, plan);
      AddRecomputation(plan, most_layers);
    } while (std::next_permutation(order.begin(), order.end()));
  }

  void AddRecomputation(Plan& plan, int most_layers) {
    if (plan.shared.grad_checkpoint == trials::kRecomputeFull) {
      Recompute(most_layers, plan);
      // Megatron-LM has no selective recomputation of what is recomputed fully.
      plan.shared.grad_checkpoint = trials::kRecomputeNothing;
      const int groups = search_.groups ? most_layers : 1;
      for (int group = 1; group <= groups; ++group) {
        AddOffload(plan, group);
      }
      return;
    }
    AddOffload(plan, 1);
    for (int layers = 1; partial_ && layers < most_layers; ++layers) {
      Recompute(layers, plan);
      AddOffload(plan, 1);
    }
  }

  void AddOffload(const Plan& plan, int group) {
    Add(plan, {.group = group});
    for (const bool overlap : {true, false}) {
      if (search_.offload) {
        Add(plan, {.group = group,
                   .offload_optimizer = true,
                   .overlap_offload = overlap});
      }
    }
  }

  static void Recompute(int layers, Plan& plan) {
    for (int s = 0; s < plan.shared.pp; ++s) {
      plan.stages[s].recomputed_layers = std::min(layers, StageLayers(plan, s));
    }
  }

  void Add(const Plan& plan, const AstraExtras& extras) {
    ++result_.strategies;
    const AstraPlanModel::Cost cost = model_.CostOf(plan, extras);
    if (cost.memory_share > kMemoryShare) {
      return;
    }
    ++result_.fit;
    result_.best.push_back({plan, cost, extras});
    constexpr std::size_t kRoom = 16;
    if (result_.best.size() > kRoom * (top_ + 1)) {
      KeepBest();
    }
  }

  void KeepBest() {
    std::ranges::stable_sort(
        result_.best, [this](const CostedStrategy& a, const CostedStrategy& b) {
          return a.cost.step_time_s != b.cost.step_time_s
                     ? a.cost.step_time_s < b.cost.step_time_s
                     : PeakOf(a.plan) < PeakOf(b.plan);
        });
    result_.best.resize(std::min(result_.best.size(), top_));
  }

  // FLOP/s of the GPUs that a plan uses.
  [[nodiscard]] double PeakOf(const Plan& plan) const {
    double sum = 0.0;
    for (int type = 0;
         type < static_cast<int>(problem_.machine.gpu_types().size()); ++type) {
      sum += GpusOfType(plan, type) *
             problem_.machine.gpu_types()[type].half_flop_per_s;
    }
    return sum;
  }

  const methods::Problem& problem_;
  AstraPlanModel model_;
  PlanSearchOptions search_;
  int gpus_;
  std::size_t top_;
  std::function<bool(const ParallelConfig&)> is_left_out_;
  bool partial_ = false;  // the space has full recomputation
  PlanSearchResult result_;
};

}  // namespace

std::vector<std::vector<TypeShare>> SharesOf(
    int stages, int layers, const std::vector<int>& most_stages) {
  std::vector<TypeShare> shares;
  std::vector<std::vector<TypeShare>> all;
  AddSolutions(stages, layers, most_stages, shares, all);
  return all;
}

AstraPlanModel::AstraPlanModel(const methods::Problem& problem,
                               const AstraMethodOptions& options)
    : gpu_types_(problem.machine.gpu_types()) {
  constexpr double kTera = 1e12;
  for (const trials::GpuType& gpu_type : gpu_types_) {
    AstraMethodOptions own = options;
    if (problem.machine.mixed()) {
      own.tflops = gpu_type.half_flop_per_s / kTera;
    }
    models_.push_back(AstraModelOf(WorkloadFor("astra", problem),
                                   gpu_type.gpus_per_node,
                                   trials::RankOrder::kPipelineOutermost, own));
  }
}

const AstraBlock& AstraPlanModel::Block(int gpu_type,
                                        const ParallelConfig& config) {
  const BlockKey key{gpu_type, config.dp * config.microbatches, config.tp,
                     config.cp, config.ep};
  auto found = blocks_.find(key);
  if (found == blocks_.end()) {
    found = blocks_.emplace(key, models_[gpu_type].BlockOf(config)).first;
  }
  return found->second;
}

AstraPlanModel::Cost AstraPlanModel::CostOf(const Plan& plan,
                                            const AstraExtras& extras) {
  Cost cost;
  double reduction_s = 0.0;
  std::vector<double> stage_s;
  std::vector<int> used(gpu_types_.size(), 0);
  // From the stage before: it is on another type or host.
  bool from_host = false;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const trials::PlanStage& stage = plan.stages[s];
    const trials::GpuType& gpu_type = gpu_types_[stage.gpu_type];
    const AstraModel& model = models_[stage.gpu_type];
    const ParallelConfig config = StageConfig(plan, static_cast<int>(s));
    const AstraStage one =
        model.StageOf(config, Block(stage.gpu_type, config),
                      {.stage = static_cast<int>(s),
                       .blocks = StageLayers(plan, static_cast<int>(s)),
                       .recomputed = stage.recomputed_layers,
                       .extras = extras});
    double time_s = one.compute_s + one.communicate_s;
    if (s > 0) {
      time_s += model.TransferTime(config, from_host);
    }
    const int gpus = StageGpus(plan, static_cast<int>(s));
    used[stage.gpu_type] += gpus;
    if (s + 1 < plan.stages.size()) {
      const int node = gpu_type.gpus_per_node;
      from_host = plan.stages[s + 1].gpu_type != stage.gpu_type ||
                  gpus > node || used[stage.gpu_type] % node == 0;
      time_s += model.TransferTime(config, from_host);
    }
    stage_s.push_back(time_s);
    reduction_s = std::max(reduction_s, one.reduction_s + one.offload_s);
    cost.memory_share =
        std::max(cost.memory_share, one.memory_bytes / gpu_type.memory_bytes);
  }
  cost.step_time_s = PipelineTime(stage_s, plan.shared.microbatches,
                                  plan.shared.model_chunks) +
                     reduction_s;
  return cost;
}

PlanSearchResult SearchPlans(const methods::Problem& problem,
                             const AstraMethodOptions& options,
                             const PlanSearchOptions& search) {
  return Search(problem, options, search).Run();
}

Plan PlanOfCandidate(const methods::Problem& problem,
                     const ParallelConfig& config) {
  Plan plan = UniformPlan(config, WorkloadFor("astra", problem).model.layers);
  FillTypes(problem.machine.GpusByType(), plan);
  return plan;
}

}  // namespace planners
