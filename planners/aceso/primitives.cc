#include "planners/aceso/primitives.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "common/ranges.h"

namespace planners {
namespace {

// In the order of PrimitiveKind.
constexpr std::array kPrimitives = {
    Primitive{PrimitiveKind::kIncOperators, {+1, 0, +1}},
    Primitive{PrimitiveKind::kDecOperators, {-1, 0, -1}},
    Primitive{PrimitiveKind::kIncMicroBatch, {-1, 0, +1}},
    Primitive{PrimitiveKind::kDecMicroBatch, {+1, 0, -1}},
    Primitive{PrimitiveKind::kIncDp, {-1, +1, -1}, {.dp_log2 = +1}},
    Primitive{PrimitiveKind::kDecDp, {+1, -1, +1}, {.dp_log2 = -1}},
    Primitive{PrimitiveKind::kIncTp, {-1, +1, -1}, {.tp_log2 = +1}},
    Primitive{PrimitiveKind::kDecTp, {+1, -1, +1}, {.tp_log2 = -1}},
    Primitive{PrimitiveKind::kIncRecomputation, {+1, 0, -1}},
    Primitive{PrimitiveKind::kDecRecomputation, {-1, 0, +1}},
};

// Doubles or halves the GPUs of a stage.
bool ScaleStage(const OperatorModel& model, OperatorPlan& plan, int stage,
                const SizeChange& change) {
  if ((change.tp_log2 + change.dp_log2 > 0 &&
       2 * plan.GpusOf(stage) > model.job().gpus) ||
      !Scale(model, plan, stage, change)) {
    return false;
  }
  FitRecomputation(model, plan, stage);
  return true;
}

// The partner primitive: in the dimension in which the stage is then faster.
bool ScalePartner(const OperatorModel& model, OperatorPlan& plan, int stage,
                  int log2_change) {
  std::optional<OperatorPlan> best;
  std::pair<bool, double> best_score;
  for (const SizeChange change : {SizeChange{.dp_log2 = log2_change},
                                  SizeChange{.tp_log2 = log2_change}}) {
    OperatorPlan changed = plan;
    if (ScaleStage(model, changed, stage, change)) {
      const StageCost cost = model.Cost(model.ViewOf(changed, stage));
      const std::pair score(cost.memory_mb > model.job().memory_limit_mb,
                            cost.total_ms());
      if (!best || score < best_score) {
        best = std::move(changed);
        best_score = score;
      }
    }
  }
  if (!best) {
    return false;
  }
  plan = *std::move(best);
  return true;
}

// Gives `surplus` GPUs to stages that have not changed yet, busiest first, or
// takes the missing ones from the idlest ones, until none are left over.
// `first` is the first of these partners.
bool Settle(const OperatorModel& model, OperatorPlan& plan,
            const std::vector<int>& idlest, int changed, int first,
            int surplus) {
  std::vector<char> used(idlest.size(), 0);
  used[changed] = 1;
  const auto scale = [&](int stage) {
    const int gpus = plan.GpusOf(stage);
    const int change = surplus > 0 ? 1 : -1;
    used[stage] = 1;
    if (!ScalePartner(model, plan, stage, change)) {
      return false;
    }
    surplus -= change > 0 ? gpus : -gpus / 2;
    return true;
  };
  const auto next = [&] {
    const auto usable = [&](int stage) {
      const int gpus = plan.GpusOf(stage);
      return used[stage] == 0 &&
             (surplus > 0 ? gpus <= surplus : gpus > 1 && gpus / 2 <= -surplus);
    };
    std::vector<int> order = idlest;
    if (surplus > 0) {
      std::ranges::reverse(order);
    }
    const auto found = std::ranges::find_if(order, usable);
    return found == order.end() ? -1 : *found;
  };
  if (!scale(first)) {
    return false;
  }
  while (surplus != 0) {
    const int stage = next();
    if (stage < 0 || !scale(stage)) {
      return false;
    }
  }
  return true;
}

// inc/dec-dp/tp with its partners: the first partner is the idlest stage (the
// busiest one when GPUs become free) with which the GPUs add up.
std::optional<OperatorPlan> ChangeGpus(const OperatorModel& model,
                                       const CostedPlan& from, int stage,
                                       const SizeChange& change,
                                       std::int64_t& explored) {
  OperatorPlan scaled = from.plan;
  if (!ScaleStage(model, scaled, stage, change)) {
    return std::nullopt;
  }
  const int surplus = from.plan.GpusOf(stage) - scaled.GpusOf(stage);
  const std::vector<int> idlest = IdlestFirst(from.cost);
  std::vector<int> partners = idlest;
  if (surplus > 0) {
    std::ranges::reverse(partners);
  }
  for (const int partner : partners) {
    if (partner == stage || (surplus < 0 && scaled.GpusOf(partner) == 1)) {
      continue;
    }
    OperatorPlan plan = scaled;
    ++explored;
    if (Settle(model, plan, idlest, stage, partner, surplus)) {
      return plan;
    }
  }
  return std::nullopt;
}

// The next microbatch size up or down: the profiled sizes, then doublings of
// the largest one, which data parallelism splits. 0 if there is none.
int NextMicroBatch(const OperatorModel& model, int micro_batch, bool up) {
  const std::vector<int>& profiled = model.table().micro_batches();
  const int largest = profiled.back();
  if (up && micro_batch >= largest) {
    return 2 * micro_batch;
  }
  if (!up && micro_batch > largest) {
    return micro_batch / 2;
  }
  const auto at = std::ranges::lower_bound(profiled, micro_batch);
  if (!up) {
    return at == profiled.begin() ? 0 : *(at - 1);
  }
  return *(at + 1);
}

std::optional<OperatorPlan> ChangeMicroBatch(const OperatorModel& model,
                                             OperatorPlan plan, bool up) {
  const int micro_batch = NextMicroBatch(model, plan.micro_batch, up);
  if (micro_batch == 0 || model.job().batch % micro_batch != 0) {
    return std::nullopt;
  }
  plan.micro_batch = micro_batch;
  for (int stage = 0; stage < plan.stages(); ++stage) {
    if (!ChooseSizes(model, plan, stage, plan.GpusOf(stage))) {
      return std::nullopt;
    }
  }
  return plan;
}

}  // namespace

std::span<const Primitive> Primitives() { return kPrimitives; }

std::optional<CostedPlan> Apply(const OperatorModel& model,
                                const CostedPlan& from, int stage,
                                PrimitiveKind kind, std::int64_t& explored) {
  std::optional<OperatorPlan> plan;
  switch (kind) {
    case PrimitiveKind::kIncOperators:
      return std::nullopt;  // the partner of dec-op#, see Relay
    case PrimitiveKind::kDecOperators: {
      CostedPlan moved = Relay(model, from, stage, explored);
      if (moved.plan == from.plan) {
        return std::nullopt;
      }
      return moved;
    }
    case PrimitiveKind::kIncMicroBatch:
    case PrimitiveKind::kDecMicroBatch:
      ++explored;
      plan = ChangeMicroBatch(model, from.plan,
                              kind == PrimitiveKind::kIncMicroBatch);
      break;
    case PrimitiveKind::kIncDp:
    case PrimitiveKind::kDecDp:
    case PrimitiveKind::kIncTp:
    case PrimitiveKind::kDecTp:
      plan = ChangeGpus(model, from, stage,
                        kPrimitives[static_cast<std::size_t>(kind)].sizes,
                        explored);
      break;
    case PrimitiveKind::kIncRecomputation:
    case PrimitiveKind::kDecRecomputation:
      plan = from.plan;
      FitRecomputation(model, *plan, stage);
      if (*plan == from.plan) {
        return std::nullopt;
      }
      ++explored;
      break;
  }
  if (!plan) {
    return std::nullopt;
  }
  return Costed(model, *std::move(plan));
}

std::vector<int> BottlenecksOf(const OperatorModel& model,
                               const PlanCost& cost) {
  if (Fits(model, cost)) {
    return LargestFirst(cost.stage_iteration_ms);
  }
  return LargestFirst(common::Map(cost.stages, &StageCost::memory_mb));
}

std::vector<std::vector<PrimitiveKind>> PrimitiveGroups(
    const OperatorModel& model, const PlanCost& cost, int stage) {
  std::vector<int> resources = {2};
  if (Fits(model, cost)) {
    std::array<double, 3> sum{};
    std::vector<double> share(3);
    for (std::size_t i = 0; i < cost.stages.size(); ++i) {
      const StageCost& each = cost.stages[i];
      const std::array<double, 3> consumed = {
          each.ideal_ms,
          std::max(0.0, each.compute_ms - each.ideal_ms) + each.communicate_ms,
          each.recompute_ms};
      for (std::size_t r = 0; r < 3; ++r) {
        sum[r] += consumed[r];
        if (static_cast<int>(i) == stage) {
          share[r] = consumed[r];
        }
      }
    }
    for (std::size_t r = 0; r < 3; ++r) {
      share[r] = sum[r] > 0.0 ? share[r] / sum[r] : 0.0;
    }
    resources = LargestFirst(share);
  }
  std::vector<char> listed(kPrimitives.size(), 0);
  std::vector<std::vector<PrimitiveKind>> groups;
  const auto add = [&](const auto& belongs) {
    std::vector<PrimitiveKind> group;
    for (std::size_t i = 0; i < kPrimitives.size(); ++i) {
      if (listed[i] == 0 && belongs(kPrimitives[i])) {
        listed[i] = 1;
        group.push_back(kPrimitives[i].kind);
      }
    }
    groups.push_back(std::move(group));
  };
  for (const int resource : resources) {
    add([&](const Primitive& p) { return p.change[resource] < 0; });
  }
  if (resources.size() > 1) {
    add([](const Primitive&) { return true; });
  }
  return groups;
}

}  // namespace planners
