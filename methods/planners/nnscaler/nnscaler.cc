#include "methods/planners/nnscaler/nnscaler.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "methods/planners/aceso/conversions.h"

namespace methods {
namespace {

double PipelineMsOf(const PlanCost& cost, int microbatches) {
  std::vector<double> stage_ms;
  for (const StageCost& stage : cost.stages) {
    stage_ms.push_back(stage.total_ms());
  }
  return PipelineMs(stage_ms, microbatches);
}

class NnScalerPlanner final : public Planner {
 public:
  explicit NnScalerPlanner(const NnScalerOptions& options)
      : options_(options) {}

  [[nodiscard]] std::vector<Proposal> Plans(
      const Problem& part, std::uint64_t /*seed*/) const override {
    const OperatorModel model = ModelOfCandidates(part, options_);
    std::vector<NnScalerPlan> plans =
        SearchUnderConstraints(model, options_.constraints);
    const bool fit = !plans.empty();
    if (!fit) {
      plans = SearchUnderConstraints(model, options_.constraints, false);
      std::ranges::stable_sort(plans, [](const auto& a, const auto& b) {
        return a.memory_mb < b.memory_mb;
      });
    }
    std::vector<Proposal> proposals;
    for (const NnScalerPlan& plan : plans) {
      proposals.push_back(
          {SizesOf(plan.plan, model.job().batch), fit ? 0 : 1,
           plan.iteration_ms * part.weight.OfGpus(part.machine.gpus())});
    }
    return proposals;
  }

  [[nodiscard]] Estimator EstimatorOf(const Problem& part) const override {
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
          PipelineMsOf(cost, model.job().batch / plan->micro_batch),
          cost.memory_mb);
    };
  }

 private:
  NnScalerOptions options_;
};

}  // namespace

std::vector<Option> OptionsOf(NnScalerOptions& o) {
  return OperatorJobRows(
      o,
      {
          {"most_bubble", Number{&o.constraints.most_bubble, 0.0, 1.0},
           "The largest share of the bubble in a pipeline; 1: any."},
          {"least_balance", Number{&o.constraints.least_balance, 0.0, 1.0},
           "The least work of a stage per GPU, as a share of the mean; its "
           "inverse "
           "is the most. 0: any."},
          {"most_gpus_of_stage", Integer{&o.constraints.most_gpus_of_stage, 1},
           "GPUs of a stage, not counting replicas."},
      });
}

std::unique_ptr<Planner> MakePlanner(const NnScalerOptions& options) {
  return std::make_unique<NnScalerPlanner>(options);
}

}  // namespace methods
