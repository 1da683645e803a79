// ACESO: trials in the order of Aceso's plans.

#ifndef METHODS_PLANNERS_ACESO_ACESO_H_
#define METHODS_PLANNERS_ACESO_ACESO_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "methods/method.h"
#include "methods/options.h"
#include "methods/planners/aceso/search.h"
#include "surrogates/operators/analytic_operators.h"

namespace methods {

// Plans with SearchAceso before the first trial, from profiled operators or, if
// no profiles are named, from the sizes of a GPT. The search space has
// configurations, not plans: each of the `top` plans is tried as its nearest
// configuration (see NearestTo), and after them the other candidates in the
// order of their distance from the first plan. If no plan fits, the plan that
// needs the least memory takes their place. It learns nothing from trials.
struct AcesoMethodOptions {
  std::string profiles;  // CSV files, see OperatorTable and LinkTable
  std::string links;
  std::string profiled_model;  // its name in them
  surrogates::AnalyticJob analytic;
  double between_hosts_gb_per_s = 12.0;  // without profiles
  int layers = 24;
  int batch = 64;
  double memory_share = 0.9;  // of the capacity that a plan may use
  AcesoOptions search;
  int budget = 200;  // plans per number of stages
};

[[nodiscard]] std::vector<Option> OptionsOf(AcesoMethodOptions& options);

[[nodiscard]] std::unique_ptr<Method> MakeAceso(
    const Problem& problem,
    const AcesoMethodOptions& options,
    std::uint64_t seed);

// The configuration of a plan with unequal stages: pp is the number of stages;
// dp and tp are means over operators of their logarithms, and recomputation is
// full if at least half of the operators recompute. Its values need not be
// powers of two: it is compared by Distance.
struct PlanSizes {
  double dp = 1.0;
  double tp = 1.0;
  double pp = 1.0;
  double microbatches = 1.0;
  bool recomputes = false;
};
[[nodiscard]] PlanSizes SizesOf(const surrogates::OperatorPlan& plan,
                                int batch);
// The sum of the differences of the logarithms to base 2 of dp, tp, pp and
// microbatches, and 1 where recomputation differs.
[[nodiscard]] double Distance(const PlanSizes& plan,
                              const trials::ParallelConfig& config);

}  // namespace methods

#endif  // METHODS_PLANNERS_ACESO_ACESO_H_
