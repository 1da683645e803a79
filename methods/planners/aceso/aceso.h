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
#include "trials/workload.h"

namespace methods {

// What is tried of a plan of Aceso: its nearest configuration of the search
// space (by Distance), or the plan itself, with whole layers (LayerPlanOf).
enum class Judge { kNearest, kPlan };

// Plans with SearchAceso before the first trial, from profiled operators or, if
// no profiles are named, from the sizes of the model. Sizes that are 0 are
// those of [workload]. The `top` plans are tried first, each as `judge` says,
// and after them the candidates of the space in the order of their distance
// from the first plan. If no plan fits, the plan that needs the least memory
// takes their place. With Judge::kPlan, plans that are the same in whole layers
// are tried once, and those that trials cannot run (CheckPlan) are left out;
// the rules of the search space do not apply to them. It learns nothing from
// trials.
struct AcesoMethodOptions {
  Judge judge = Judge::kNearest;
  std::string profiles;  // CSV files, see OperatorTable and LinkTable
  std::string links;
  std::string profiled_model;  // its name in them
  int layers = 0;
  int batch = 0;
  int hidden = 0;  // this and the following: without profiles
  int heads = 0;
  int feed_forward = 0;
  int sequence_length = 0;
  int vocabulary = 0;
  double tflops = surrogates::AnalyticJob().tflops;
  double memory_gb_per_s = surrogates::AnalyticJob().memory_gb_per_s;
  double link_gb_per_s = surrogates::AnalyticJob().link_gb_per_s;
  double between_hosts_gb_per_s = 12.0;
  double memory_share = 0.9;  // of the capacity that a plan may use
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
    const Problem& problem,
    const AcesoMethodOptions& options,
    std::uint64_t seed);

// The job of the options, with the sizes of the workload where they are 0.
// Errors: throws InputError naming the option where there is no workload.
struct AcesoJob {
  int layers = 0;
  int batch = 0;
  surrogates::AnalyticJob analytic;
};
[[nodiscard]] AcesoJob JobOf(const AcesoMethodOptions& options,
                             const trials::Workload* workload);

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
// microbatches, and 1 where recomputation differs. Microbatches of a single
// stage count only if the space `accumulates` gradients; otherwise they are the
// framework's.
[[nodiscard]] double Distance(const PlanSizes& plan,
                              const trials::ParallelConfig& config,
                              bool accumulates);

}  // namespace methods

#endif  // METHODS_PLANNERS_ACESO_ACESO_H_
