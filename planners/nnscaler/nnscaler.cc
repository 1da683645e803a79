#include "planners/nnscaler/nnscaler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>

#include "common/ranges.h"
#include "common/units.h"
#include "planners/aceso/conversions.h"
#include "planners/alpa/alpa.h"
#include "planners/operators/pipeline_program.h"

namespace planners {
namespace {

using common::kInfinity;

// Forward time and weights of an operator on one GPU, from the least tp that is
// profiled; NaN where none is.
struct StageWork {
  double forward_us = std::nan("");
  double weights_mb = std::nan("");
};
StageWork StageWorkOf(const OperatorModel& model, int op, int micro_batch) {
  for (int tp = 1; tp <= model.table().largest_tp(); tp *= 2) {
    const OperatorProfile* profile =
        model.Profile(op, micro_batch, OperatorChoice::Of(tp, 1));
    if (profile != nullptr) {
      return {profile->forward_us * tp, profile->weights_mb * tp};
    }
  }
  return {};
}

// The pipelines of one model with one microbatch size and recomputation. Their
// stages do not depend on the replicas, and stages with the same layers are
// solved once. Places of the program are numbers of layers.
class PipelineSearch {
 public:
  // The model and the constraints must outlive it.
  PipelineSearch(const OperatorModel& model, const PlanConstraints& constraints,
                 int micro_batch, bool recompute)
      : model_(model),
        constraints_(constraints),
        micro_batch_(micro_batch),
        recompute_(recompute),
        cuts_(LayersOf(model)),
        forward_us_(1, 0.0),
        weights_mb_(1, 0.0) {
    if (cuts_.empty()) {
      cuts_.push_back(0);
    }
    cuts_.front() = 0;  // what precedes the layers is in the first stage
    cuts_.push_back(model.operators());
    for (int op = 0; op < model.operators(); ++op) {
      const StageWork work = StageWorkOf(model, op, micro_batch);
      forward_us_.push_back(forward_us_.back() + work.forward_us);
      weights_mb_.push_back(weights_mb_.back() + work.weights_mb);
    }
  }

  // The fastest one on so many GPUs, and its time; infinite: there is none.
  std::pair<OperatorPlan, double> Fastest(int gpus, int microbatches,
                                          double limit_mb) {
    const int most_gpus =
        std::min(constraints_.most_gpus_of_stage, model_.job().gpus_per_node);
    const int most_stages =
        std::min(MostStages(constraints_, microbatches, gpus), Layers());
    PipelineProgram program(PipelineProgram::Least::kSlowest, Layers(), gpus);
    double best_ms = kInfinity;
    int best_stages = 0;
    for (int stages = 1; stages <= most_stages; ++stages) {
      program.Solve(stages, [&](const PipelineStage& place) {
        if (place.gpus > most_gpus || StatesMb(place) > limit_mb ||
            !HasBalancedWork(place, gpus)) {
          return kInfinity;
        }
        const SolvedStage& stage = Solved(place);
        return stage.MemoryMb(stages - 1) <= limit_mb ? stage.ms : kInfinity;
      });
      const double ms =
          (microbatches + stages - 1) * program.Best(stages).slowest_ms;
      if (ms < best_ms) {
        best_ms = ms;
        best_stages = stages;
      }
    }
    OperatorPlan plan;
    plan.micro_batch = micro_batch_;
    for (const PipelineStage& place : program.StagesOf(best_stages)) {
      plan.Append(cuts_[place.begin], Solved(place).choices);
    }
    plan.first.push_back(model_.operators());
    return {std::move(plan), best_ms};
  }

 private:
  [[nodiscard]] int Layers() const {
    return static_cast<int>(cuts_.size()) - 1;
  }
  [[nodiscard]] double Sum(const std::vector<double>& sums,
                           const PipelineStage& place) const {
    return sums[cuts_[place.end]] - sums[cuts_[place.begin]];
  }

  // Whether the work of a stage is balanced in a pipeline of all GPUs.
  [[nodiscard]] bool HasBalancedWork(const PipelineStage& place,
                                     int all_gpus) const {
    const double share =
        Sum(forward_us_, place) / place.gpus / (forward_us_.back() / all_gpus);
    return std::isnan(share) || IsBalanced(constraints_, share);
  }

  // Parameters, gradients and optimizer states, spread over the GPUs: a lower
  // bound of the memory of a stage.
  [[nodiscard]] double StatesMb(const PipelineStage& place) const {
    const StateCopies& copies = model_.job().copies;
    const double mb = Sum(weights_mb_, place) *
                      (2.0 + copies.master + copies.optimizer) / place.gpus;
    return std::isnan(mb) ? 0.0 : mb;
  }

  const SolvedStage& Solved(const PipelineStage& place) {
    const auto& [begin, end, gpus] = place;
    const auto [at, is_new] =
        stages_.try_emplace({begin == 0, end == Layers(), end - begin, gpus});
    if (is_new) {
      const bool whole_host = gpus >= model_.job().gpus_per_node;
      at->second =
          SolveStage(model_,
                     {.begin = cuts_[begin],
                      .end = cuts_[end],
                      .micro_batch = micro_batch_,
                      .input_between_hosts = whole_host && begin > 0,
                      .output_between_hosts = whole_host && end < Layers()},
                     gpus, recompute_);
    }
    return at->second;
  }

  const OperatorModel& model_;
  const PlanConstraints& constraints_;
  int micro_batch_;
  bool recompute_;
  std::vector<int> cuts_;  // operators, the end included
  // Sums over the first operators, on one GPU.
  std::vector<double> forward_us_;
  std::vector<double> weights_mb_;
  std::map<std::array<int, 4>, SolvedStage> stages_;
};

// Replicas of a pipeline are data parallelism of every operator.
void Replicate(int replicas, OperatorPlan& plan) {
  plan.micro_batch *= replicas;
  for (OperatorChoice& choice : plan.choices) {
    choice.dp_log2 += OperatorChoice::Of(1, replicas).dp_log2;
  }
}

class NnScalerPlanner final : public Planner {
 public:
  explicit NnScalerPlanner(const NnScalerOptions& options)
      : options_(options) {}

  [[nodiscard]] std::vector<Proposal> Plans(
      const methods::Problem& part, std::uint64_t /*seed*/) const override {
    const OperatorModel model = ModelOfCandidates(part, options_);
    std::vector<NnScalerPlan> plans =
        SearchUnderConstraints(model, options_.constraints);
    const bool fit = !plans.empty();
    if (!fit) {
      plans = SearchUnderConstraints(model, options_.constraints, false);
      std::ranges::stable_sort(plans, {}, &NnScalerPlan::memory_mb);
    }
    std::vector<Proposal> proposals;
    for (const NnScalerPlan& plan : plans) {
      proposals.push_back(
          {SizesOf(plan.plan, model.job().batch), fit ? 0 : 1,
           plan.iteration_ms * part.weight.OfGpus(part.machine.gpus())});
    }
    return proposals;
  }

  [[nodiscard]] Estimator EstimatorOf(
      const methods::Problem& part) const override {
    return [model = ModelOfCandidates(part, options_)](
               const trials::ParallelConfig& config) -> Estimate {
      const auto plan = PlanOf(model, config);
      if (!plan) {
        return {};
      }
      const PlanCost cost = model.Cost(*plan);
      if (!std::isfinite(cost.iteration_ms)) {
        return {};
      }
      return EstimateOf(
          PipelineMs(common::Map(cost.stages, &StageCost::total_ms),
                     model.job().batch / plan->micro_batch),
          cost.memory_mb);
    };
  }

 private:
  NnScalerOptions options_;
};

}  // namespace

int MostStages(const PlanConstraints& constraints, int microbatches, int gpus) {
  const double bubble = constraints.most_bubble;
  // A bubble that equals the bound up to rounding is allowed; a bound of 1
  // allows infinitely many stages.
  const double most =
      std::floor(1.0 + 1e-9 + bubble / (1.0 - bubble) * microbatches);
  return static_cast<int>(std::min<double>(gpus, most));
}

bool IsBalanced(const PlanConstraints& constraints, double share) {
  constexpr double kRounding = 1e-9;
  return share >= constraints.least_balance * (1.0 - kRounding) &&
         share * constraints.least_balance <= 1.0 + kRounding;
}

double PipelineMs(const std::vector<double>& stage_ms, int microbatches) {
  return (microbatches + static_cast<int>(stage_ms.size()) - 1) *
         *std::ranges::max_element(stage_ms);
}

std::vector<NnScalerPlan> SearchUnderConstraints(
    const OperatorModel& model, const PlanConstraints& constraints, bool fit) {
  const OperatorJob& job = model.job();
  const double limit_mb = fit ? job.memory_limit_mb : kInfinity;
  std::vector<NnScalerPlan> plans;
  const int most = job.gpus * model.table().micro_batches().back();
  for (int micro_batch = 1; micro_batch <= most; micro_batch *= 2) {
    for (const bool recompute : {false, true}) {
      PipelineSearch search(model, constraints, micro_batch, recompute);
      for (int replicas = 1; replicas <= job.gpus; replicas *= 2) {
        if (job.gpus % replicas != 0 ||
            job.batch % (replicas * micro_batch) != 0) {
          continue;
        }
        auto [plan, ms] =
            search.Fastest(job.gpus / replicas,
                           job.batch / (replicas * micro_batch), limit_mb);
        if (std::isfinite(ms)) {
          Replicate(replicas, plan);
          const double memory_mb = model.Cost(plan).memory_mb;
          plans.push_back({std::move(plan), ms, memory_mb});
        }
      }
    }
  }
  std::ranges::stable_sort(plans, {}, &NnScalerPlan::iteration_ms);
  return plans;
}

std::vector<methods::Option> OptionsOf(NnScalerOptions& o) {
  return OperatorJobRows(o, {});
}

std::unique_ptr<Planner> MakePlanner(const NnScalerOptions& options) {
  return std::make_unique<NnScalerPlanner>(options);
}

}  // namespace planners
