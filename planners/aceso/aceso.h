// ACESO: trials in the order of Aceso's plans.

#pragma once

#include <memory>
#include <vector>

#include "methods/options.h"
#include "planners/aceso/search.h"
#include "planners/operator_job.h"
#include "planners/planner.h"

namespace planners {

// Plans with SearchAceso. The `top` plans are tried first, each as `judge` says
// (its nearest configuration by Distance, or the plan in whole layers,
// LayerPlanOf), and after them the candidates of the space in the order of
// their distance from the first plan. If no plan fits, the plan that needs the
// least memory takes their place. The rules of the search space do not apply to
// plans.
struct AcesoMethodOptions : OperatorJobOptions {
  Judge judge = Judge::kNearest;
  AcesoOptions search;
};

[[nodiscard]] std::vector<methods::Option> OptionsOf(
    AcesoMethodOptions& options);

// Estimates a configuration by Aceso's performance model, as a plan of equal
// stages (PlanOf). Without profiles, operators are computed for the tp and the
// microbatches of all candidates. The model has neither ZeRO nor model chunks,
// and no time to reduce gradients. NaN for a candidate that has no plan, or
// whose operators are not profiled.
[[nodiscard]] std::unique_ptr<Planner> MakePlanner(
    const AcesoMethodOptions& options);

}  // namespace planners
