#include "planners/aceso/aceso.h"

#include <cstdint>
#include <utility>

#include "planners/aceso/conversions.h"
#include "planners/operators/plan_cost.h"

namespace planners {
namespace {

class AcesoPlanner final : public Planner {
 public:
  explicit AcesoPlanner(const AcesoMethodOptions& options)
      : options_(options) {}

  [[nodiscard]] std::vector<Proposal> Plans(const methods::Problem& part,
                                            std::uint64_t seed) const override {
    const OperatorModel model =
        ModelOf(part, options_, JobOf(options_, part.workload));
    AcesoOptions search = options_.search;
    search.threads = part.threads;
    search.seed = seed;
    const AcesoResult result = SearchAceso(model, search);
    std::vector<Proposal> proposals;
    for (const CostedPlan& plan :
         result.best.empty() ? result.least_memory : result.best) {
      if (options_.judge == Judge::kPlan) {
        proposals.push_back({LayerPlanOf(model, plan.plan)});
      }
      if (options_.judge == Judge::kNearest || proposals.size() == 1) {
        proposals.push_back(
            {SizesOf(plan.plan, model.job().batch),
             Fits(model, plan.cost) ? 0 : 1,
             plan.cost.iteration_ms * part.weight.OfGpus(part.machine.gpus())});
      }
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
      return EstimateOf(cost.iteration_ms, cost.memory_mb);
    };
  }

 private:
  AcesoMethodOptions options_;
};

}  // namespace

std::vector<methods::Option> OptionsOf(AcesoMethodOptions& o) {
  methods::Option judge = JudgeOption(
      o.judge,
      "What is tried of each plan: the nearest configuration of the search "
      "space, or the plan itself, in whole layers.");
  judge.check = [&o, check = judge.check](const methods::Problem& problem) {
    return o.judge == Judge::kPlan && problem.machine.mixed()
               ? "its plans have GPUs of one type, and this cluster has "
                 "several; use \"nearest\""
               : check(problem);
  };
  return OperatorJobRows(
      o, {
             std::move(judge),
             {"budget", methods::Integer{&o.search.budget, 1},
              "Plans to explore per number of stages; the published program "
              "explores 10,000 to 25,000 in its 200 seconds.",
              "Sec. 5.1"},
             {"top", methods::Integer{&o.search.top, 1},
              "Plans that are tried first, as `judge` says.", "Sec. 5.1"},
             {"most_hops", methods::Integer{&o.search.most_hops, 1}, "MaxHops.",
              "Sec. 5.1"},
         });
}

std::unique_ptr<Planner> MakePlanner(const AcesoMethodOptions& options) {
  return std::make_unique<AcesoPlanner>(options);
}

}  // namespace planners
