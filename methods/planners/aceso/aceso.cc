#include "methods/planners/aceso/aceso.h"

#include <cmath>

#include "methods/fixed_order.h"
#include "methods/planners/aceso/uniform_plan.h"
#include "surrogates/operators/plan_cost.h"

namespace methods {
namespace {

using surrogates::OperatorModel;

// The plans of a search, the best first.
std::vector<PlanSizes> Plans(const Problem& problem,
                             const AcesoMethodOptions& options,
                             std::uint64_t seed) {
  AcesoOptions search = options.search;
  search.budget = options.budget;
  search.threads = problem.threads;
  search.seed = seed;
  const OperatorJobSizes job = JobOf(options, problem.workload);
  const AcesoResult result =
      SearchAceso(ModelOf(problem, options, job), search);
  std::vector<PlanSizes> plans;
  for (const CostedPlan& plan :
       result.best.empty() ? result.least_memory : result.best) {
    plans.push_back(SizesOf(plan.plan, job.batch));
  }
  if (plans.empty()) {
    throw common::InputError(
        "aceso: the profiles have no plan for these GPUs; check layers, "
        "batch and the profiles");
  }
  return plans;
}

}  // namespace

std::vector<Option> OptionsOf(AcesoMethodOptions& o) {
  std::vector<Option> rows = OperatorJobRows(o);
  const std::vector<Option> own = {
      {"budget",
       Integer{&o.budget, 1},
       "Plans to explore per number of stages."},
      {"top",
       Integer{&o.search.top, 1},
       "Plans whose nearest configurations are tried first.",
       "Sec. 5.1"},
      {"most_hops", Integer{&o.search.most_hops, 1}, "MaxHops.", "Sec. 5.1"},
  };
  rows.insert(rows.end(), own.begin(), own.end());
  return rows;
}

trials::Predictions EstimatesOf(const Problem& problem,
                                const AcesoMethodOptions& options) {
  constexpr double kMb = 1024.0 * 1024.0;
  const trials::SearchSpace& space = *problem.space;
  const OperatorModel model = ModelOfCandidates(problem, options);
  trials::Predictions estimates;
  for (const trials::ParallelConfig& config : space.configs()) {
    const auto plan = PlanOf(model, config);
    const surrogates::PlanCost cost =
        plan ? model.Cost(*plan) : surrogates::PlanCost();
    const bool known = plan && std::isfinite(cost.iteration_ms) &&
                       std::isfinite(cost.memory_mb);
    estimates.step_time_s.push_back(known ? 1e-3 * cost.iteration_ms
                                          : std::nan(""));
    estimates.peak_memory_bytes.push_back(known ? kMb * cost.memory_mb
                                                : std::nan(""));
  }
  return estimates;
}

std::unique_ptr<Method> MakeAceso(const Problem& problem,
                                  const AcesoMethodOptions& options,
                                  std::uint64_t seed) {
  return std::make_unique<FixedOrder>(
      problem.space->size(),
      NearestOrder(*problem.space, Plans(problem, options, seed)));
}

}  // namespace methods
