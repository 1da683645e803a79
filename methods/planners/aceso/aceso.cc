#include "methods/planners/aceso/aceso.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "methods/fixed_order.h"
#include "methods/planners/aceso/layer_plan.h"
#include "methods/planners/aceso/uniform_plan.h"
#include "methods/planners/operators/plan_cost.h"

namespace methods {
namespace {

using methods::OperatorModel;

// The plans of a search, the best first; empty without any.
std::vector<CostedPlan> Plans(const Problem& problem,
                              const AcesoMethodOptions& options,
                              const OperatorModel& model, std::uint64_t seed) {
  AcesoOptions search = options.search;
  search.budget = options.budget;
  search.threads = problem.threads;
  search.seed = seed;
  const AcesoResult result = SearchAceso(model, search);
  return result.best.empty() ? result.least_memory : result.best;
}

// The plans of layers that trials can run, each once, in their order.
std::vector<trials::Plan> LayerPlans(const Problem& problem,
                                     const OperatorModel& model,
                                     const std::vector<CostedPlan>& plans) {
  std::vector<trials::Plan> results;
  for (const CostedPlan& plan : plans) {
    trials::Plan result = LayerPlanOf(model, plan.plan);
    try {
      CheckPlan(result, *problem.workload, {&problem.gpus, 1});
    } catch (const trials::InvalidPlan&) {
      continue;
    }
    if (std::find(results.begin(), results.end(), result) == results.end()) {
      results.push_back(std::move(result));
    }
  }
  return results;
}

}  // namespace

std::vector<Option> OptionsOf(AcesoMethodOptions& o) {
  std::vector<Option> rows = OperatorJobRows(o);
  Option judge = JudgeOption(
      o.judge,
      "What is tried of each plan: the nearest configuration of the search "
      "space, or the plan itself, in whole layers.");
  judge.check = [&o, check = judge.check](const Problem& problem) {
    return o.judge == Judge::kPlan && !problem.gpu_types.empty()
               ? "its plans have GPUs of one type, and this cluster has "
                 "several; use \"nearest\""
               : check(problem);
  };
  const std::vector<Option> own = {
      std::move(judge),
      {"budget", Integer{&o.budget, 1},
       "Plans to explore per number of stages."},
      {"top", Integer{&o.search.top, 1},
       "Plans that are tried first, as `judge` says.", "Sec. 5.1"},
      {"most_hops", Integer{&o.search.most_hops, 1}, "MaxHops.", "Sec. 5.1"},
  };
  rows.insert(rows.end(), own.begin(), own.end());
  return rows;
}

trials::Predictions EstimatesOf(const Problem& problem,
                                const AcesoMethodOptions& options) {
  return EstimateCandidates(problem, [&](const Problem& part) -> Estimator {
    return [model = ModelOfCandidates(part, options)](
               const trials::ParallelConfig& config) -> OperatorEstimate {
      const auto plan = PlanOf(model, config);
      if (!plan) {
        return {};
      }
      const methods::PlanCost cost = model.Cost(*plan);
      return {cost.iteration_ms, cost.memory_mb};
    };
  });
}

std::unique_ptr<Method> MakeAceso(const Problem& problem,
                                  const AcesoMethodOptions& options,
                                  std::uint64_t seed) {
  const OperatorJobSizes job = JobOf(options, problem.workload);
  const bool as_plans = options.judge == Judge::kPlan;
  std::vector<RankedPlan> ranked;
  std::vector<trials::Plan> layer_plans;
  for (const Problem& part : PartsOf(problem)) {
    const OperatorModel model = ModelOf(part, options, job);
    const std::vector<CostedPlan> plans = Plans(part, options, model, seed);
    for (const CostedPlan& plan : plans) {
      ranked.push_back({SizesOf(plan.plan, job.batch), Fits(model, plan.cost),
                        plan.cost.iteration_ms * part.price.OfGpus(part.gpus)});
    }
    if (as_plans) {  // only with one number of GPUs
      layer_plans = LayerPlans(part, model, plans);
    }
  }
  if (ranked.empty()) {
    throw common::InputError(
        "aceso: the profiles have no plan for these GPUs; check layers, "
        "batch and the profiles");
  }
  std::vector<PlanSizes> sizes = InOrder(problem, std::move(ranked));
  sizes.resize(as_plans ? 1 : sizes.size());
  return std::make_unique<FixedOrder>(problem.space->size(),
                                      NearestOrder(*problem.space, sizes),
                                      std::move(layer_plans));
}

}  // namespace methods
