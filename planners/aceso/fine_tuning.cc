#include <optional>
#include <utility>

#include "planners/aceso/search.h"

namespace planners {
namespace {

// A plan, and the time of one of its stages.
struct TunedStage {
  OperatorPlan plan;
  double ms = 0.0;
};

// Replaces `best` if the stage of the plan fits and is faster.
void KeepFaster(const OperatorModel& model, OperatorPlan plan, int stage,
                TunedStage& best, std::int64_t& explored) {
  ++explored;
  FitRecomputation(model, plan, stage);
  const StageCost cost = model.Cost(model.ViewOf(plan, stage));
  if (cost.memory_mb <= model.job().memory_limit_mb &&
      cost.total_ms() < best.ms) {
    best = {std::move(plan), cost.total_ms()};
  }
}

// Exchanges tp and dp of the operators from `begin` in the direction of `step`
// as far as they can.
std::optional<OperatorPlan> Exchange(const OperatorModel& model,
                                     const OperatorPlan& plan, int stage,
                                     int begin, int step, int tp_change) {
  std::optional<OperatorPlan> changed;
  for (int op = begin; op >= plan.begin(stage) && op < plan.end(stage);
       op += step) {
    OperatorChoice choice = plan.choices[op];
    if (!choice.Resize(choice.tp_log2 + tp_change,
                       choice.dp_log2 - tp_change) ||
        plan.micro_batch % (1 << choice.dp_log2) != 0 ||
        model.Profile(op, plan.micro_batch, choice) == nullptr) {
      break;
    }
    if (!changed) {
      changed = plan;
    }
    changed->choices[op] = choice;
  }
  return changed;
}

// Moves sizes between neighboring operators, then changes variants, as long as
// the stage gets faster.
TunedStage TuneStage(const OperatorModel& model, const CostedPlan& plan,
                     int stage, std::int64_t& explored) {
  TunedStage best{plan.plan, plan.cost.stages[stage].total_ms()};
  const int begin = plan.plan.begin(stage);
  const int end = plan.plan.end(stage);
  for (int op = begin; op < end; ++op) {
    if (!model.TraitsOf(op).tunable) {
      continue;
    }
    for (const auto& [step, tp_change] :
         {std::pair(1, 1), std::pair(1, -1), std::pair(-1, 1),
          std::pair(-1, -1)}) {
      if (auto changed =
              Exchange(model, plan.plan, stage, op, step, tp_change)) {
        KeepFaster(model, *std::move(changed), stage, best, explored);
      }
    }
  }
  for (int op = begin; op < end; ++op) {
    if (model.TraitsOf(op).tunable && model.table().variants() == 2 &&
        best.plan.choices[op].tp_log2 > 0) {
      OperatorPlan changed = best.plan;
      changed.choices[op].variant ^= 1;
      KeepFaster(model, std::move(changed), stage, best, explored);
    }
  }
  return best;
}

}  // namespace

CostedPlan FineTune(const OperatorModel& model, CostedPlan plan,
                    std::int64_t& explored) {
  for (int stage = 0; stage < plan.plan.stages(); ++stage) {
    if (plan.plan.GpusOf(stage) > 1) {
      plan = Costed(model, TuneStage(model, plan, stage, explored).plan);
    }
  }
  return plan;
}

}  // namespace planners
