#include "methods/planners/nnscaler/nnscaler.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "methods/fixed_order.h"
#include "methods/planners/aceso/uniform_plan.h"
#include "methods/planners/nearest_plan.h"
#include "methods/planners/nnscaler/pipeline_plan.h"

namespace methods {
namespace {

using methods::OperatorModel;

double PipelineMsOf(const methods::PlanCost& cost, int microbatches) {
  std::vector<double> stage_ms;
  for (const methods::StageCost& stage : cost.stages) {
    stage_ms.push_back(stage.total_ms());
  }
  return PipelineMs(stage_ms, microbatches);
}

}  // namespace

std::vector<Option> OptionsOf(NnScalerOptions& o) {
  std::vector<Option> rows = OperatorJobRows(o);
  const std::vector<Option> own = {
      {"most_bubble", Number{&o.constraints.most_bubble, 0.0, 1.0},
       "The largest share of the bubble in a pipeline; 1: any."},
      {"least_balance", Number{&o.constraints.least_balance, 0.0, 1.0},
       "The least work of a stage per GPU, as a share of the mean; its inverse "
       "is the most. 0: any."},
      {"most_gpus_of_stage", Integer{&o.constraints.most_gpus_of_stage, 1},
       "GPUs of a stage, not counting replicas."},
  };
  rows.insert(rows.end(), own.begin(), own.end());
  return rows;
}

trials::Predictions EstimatesOf(const Problem& problem,
                                const NnScalerOptions& options) {
  return EstimateCandidates(problem, [&](const Problem& part) -> Estimator {
    return [model = ModelOfCandidates(part, options)](
               const trials::ParallelConfig& config) -> OperatorEstimate {
      const auto plan = PlanOf(model, config);
      if (!plan) {
        return {};
      }
      const methods::PlanCost cost = model.Cost(*plan);
      if (!std::isfinite(cost.iteration_ms)) {
        return {};
      }
      return {PipelineMsOf(cost, model.job().batch / plan->micro_batch),
              cost.memory_mb};
    };
  });
}

std::unique_ptr<Method> MakeNnScaler(const Problem& problem,
                                     const NnScalerOptions& options,
                                     std::uint64_t /*seed*/) {
  std::vector<RankedPlan> ranked;
  for (const Problem& part : PartsOf(problem)) {
    const OperatorModel model = ModelOfCandidates(part, options);
    std::vector<ConstrainedPlan> plans =
        SearchUnderConstraints(model, options.constraints).plans;
    const bool fit = !plans.empty();
    if (!fit) {
      plans = SearchUnderConstraints(model, options.constraints, false).plans;
      std::stable_sort(plans.begin(), plans.end(),
                       [](const auto& a, const auto& b) {
                         return a.memory_mb < b.memory_mb;
                       });
    }
    for (const ConstrainedPlan& plan : plans) {
      ranked.push_back({SizesOf(plan.plan, model.job().batch), fit,
                        plan.iteration_ms * part.price.OfGpus(part.gpus)});
    }
  }
  if (ranked.empty()) {
    throw common::InputError(
        "nnscaler: the profiles have no plan for these GPUs; check layers, "
        "batch and the profiles");
  }
  return std::make_unique<FixedOrder>(
      problem.space->size(),
      NearestOrder(*problem.space, InOrder(problem, std::move(ranked))));
}

}  // namespace methods
