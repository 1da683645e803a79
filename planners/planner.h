// The interface of a planner, and the method that tries its plans.

#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string_view>
#include <variant>
#include <vector>

#include "methods/method.h"
#include "methods/options.h"
#include "planners/operators/operator_plan.h"
#include "trials/parallel_config.h"
#include "trials/plan.h"
#include "trials/predictions.h"
#include "trials/workload.h"

namespace planners {

// The share of a GPU's memory that a plan or configuration may need.
inline constexpr double kMemoryShare = 0.9;

// The configuration of a plan with unequal stages: pp is the number of stages;
// dp and tp are means over operators of their logarithms, and recomputation is
// full if at least half of the operators recompute. Its values need not be
// powers of two: it is compared by Distance.
struct MeanSizes {
  double dp = 1.0;
  double tp = 1.0;
  double pp = 1.0;
  double microbatches = 1.0;
  bool recomputes = false;
  int gpus = 0;  // if > 0, those of the configurations that are nearest
};
[[nodiscard]] MeanSizes SizesOf(const OperatorPlan& plan, int batch);
// The sum of the differences of the logarithms to base 2 of dp, tp, pp and
// microbatches, and 1 where recomputation differs. Microbatches of a single
// stage count only if the space `accumulates` gradients; otherwise they are the
// framework's.
[[nodiscard]] double Distance(const MeanSizes& plan,
                              const trials::ParallelConfig& config,
                              bool accumulates);

// The estimate of a configuration; NaN: unknown.
struct Estimate {
  double step_time_s = std::numeric_limits<double>::quiet_NaN();
  double peak_memory_bytes = std::numeric_limits<double>::quiet_NaN();
};
using Estimator = std::function<Estimate(const trials::ParallelConfig&)>;

// Chooses plans from a model of the job, without trials.
class Planner {
 public:
  // What to try: a plan, the candidate nearest to its sizes, or a candidate.
  struct Proposal {
    std::variant<trials::Plan, MeanSizes, int> what;
    // Between numbers of GPUs, the smaller pair (tier, value) is tried first.
    int tier = 0;        // 0: fits in memory
    double value = 0.0;  // of tier 0: a step time, times the weight
  };

  virtual ~Planner() = default;
  // The proposals for the problem on one number of GPUs (PartsOf), the best
  // first.
  // Errors: throws InputError where the sizes of the model are unknown, and for
  // files that cannot be read.
  [[nodiscard]] virtual std::vector<Proposal> Plans(
      const methods::Problem& part, std::uint64_t seed) const = 0;
  // Its model, without a search. Errors: as above.
  [[nodiscard]] virtual Estimator EstimatorOf(
      const methods::Problem& part) const = 0;
};

// The method that tries a planner's proposals and learns nothing from trials:
// first the plans that trials can run (CheckPlan), each once, then the
// candidates; after the nearest candidates of plans, all others by their
// distance from the first plan.
// Errors: as Planner::Plans, and InputError if there is no proposal.
[[nodiscard]] std::unique_ptr<methods::Method> TryPlans(
    const methods::Problem& problem, const Planner& planner,
    std::uint64_t seed);

// As TryPlans, but the search, which may take minutes, is part of the first
// suggestion. The planner's model of the job is checked before.
// Errors: as Planner::EstimatorOf; those of TryPlans from the first Suggest.
[[nodiscard]] std::unique_ptr<methods::Method> TryPlansLazily(
    const methods::Problem& problem, std::unique_ptr<Planner> planner,
    std::uint64_t seed);

// The planner's estimates of all candidates.
[[nodiscard]] trials::Predictions EstimatesOf(const methods::Problem& problem,
                                              const Planner& planner);

// As above, for the planner that MakePlanner makes of these options.
template <typename Options>
requires requires(const Options& options) { MakePlanner(options); }
[[nodiscard]] std::unique_ptr<methods::Method> TryPlans(
    const methods::Problem& problem, const Options& options,
    std::uint64_t seed) {
  return TryPlans(problem, *MakePlanner(options), seed);
}
template <typename Options>
requires requires(const Options& options) { MakePlanner(options); }
[[nodiscard]] std::unique_ptr<methods::Method> TryPlansLazily(
    const methods::Problem& problem, const Options& options,
    std::uint64_t seed) {
  return TryPlansLazily(problem, MakePlanner(options), seed);
}
template <typename Options>
requires requires(const Options& options) { MakePlanner(options); }
[[nodiscard]] trials::Predictions EstimatesOf(const methods::Problem& problem,
                                              const Options& options) {
  return EstimatesOf(problem, *MakePlanner(options));
}

// The job, for a method that needs it.
// Errors: throws InputError with a remedy if the problem has none.
// The blocks of its model are transformers of one kind, see
// RequireUniformBlocks.
[[nodiscard]] const trials::Workload& WorkloadFor(
    std::string_view method, const methods::Problem& problem);
// Errors: throws InputError for a model with state-space layers, blocks of
// several kinds or towers, which no planner's model of a job has.
void RequireUniformBlocks(std::string_view method, const trials::Model& model);

// What is tried of a plan: the nearest configuration of the search space, or
// the plan itself.
enum class Judge { kNearest, kPlan };

// The option `judge`; trials must be able to run plans for Judge::kPlan.
[[nodiscard]] methods::Option JudgeOption(Judge& judge,
                                          std::string_view meaning);

}  // namespace planners
