// ACESO: trials in the order of Aceso's plans.

#ifndef METHODS_PLANNERS_ACESO_ACESO_H_
#define METHODS_PLANNERS_ACESO_ACESO_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "methods/method.h"
#include "methods/options.h"
#include "methods/planners/aceso/search.h"
#include "methods/planners/judge.h"
#include "methods/planners/nearest_plan.h"
#include "methods/planners/operator_job.h"

namespace methods {

// Plans with SearchAceso before the first trial. The `top` plans are tried
// first, each as `judge` says (its nearest configuration by Distance, or the
// plan in whole layers, LayerPlanOf), and after them the candidates of the
// space in the order of their distance from the first plan. If no plan fits,
// the plan that needs the least memory takes their place. With Judge::kPlan,
// plans that are the same in whole layers are tried once, and those that trials
// cannot run (CheckPlan) are left out; the rules of the search space do not
// apply to them. It learns nothing from trials.
struct AcesoMethodOptions : OperatorJobOptions {
  Judge judge = Judge::kNearest;
  AcesoOptions search;
  int budget = 200;  // plans per number of stages
};

[[nodiscard]] std::vector<Option> OptionsOf(AcesoMethodOptions& options);

// Step time and memory of every candidate by Aceso's performance model, as a
// plan of equal stages (PlanOf), without a search. Without profiles, operators
// are computed for the tp and the microbatches of all candidates. The model has
// neither ZeRO nor model chunks, and no time to reduce gradients. NaN for a
// candidate that has no plan, or whose operators are not profiled.
// Errors: as MakeAceso.
[[nodiscard]] trials::Predictions EstimatesOf(
    const Problem& problem, const AcesoMethodOptions& options);

[[nodiscard]] std::unique_ptr<Method> MakeAceso(
    const Problem& problem, const AcesoMethodOptions& options,
    std::uint64_t seed);

}  // namespace methods

#endif  // METHODS_PLANNERS_ACESO_ACESO_H_
