#include "planners/aceso/arguments.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <optional>

#include "common/ranges.h"

namespace planners {
namespace {

// The operators of a stage with one name.
struct Group {
  double kept_mb = 0.0;  // over all microbatches in flight
  std::vector<int> operators;
  std::size_t recomputed = 0;
};

// The groups that may be recomputed, largest first.
std::vector<Group> GroupsOf(const OperatorModel& model,
                            const OperatorPlan& plan, const StageView& stage) {
  std::vector<Group> groups(model.table().names().size());
  for (int op = stage.begin; op < stage.end; ++op) {
    const OperatorTraits& traits = model.TraitsOf(op);
    const OperatorProfile* profile =
        model.Profile(op, plan.micro_batch, plan.choices[op]);
    if (traits.recomputable && !traits.begins_layer && profile != nullptr) {
      Group& group = groups[model.NameOf(op)];
      group.operators.push_back(op);
      group.kept_mb +=
          profile->activations_mb * traits.kept * (stage.behind + 1);
    }
  }
  std::erase_if(groups, [](const Group& g) { return !(g.kept_mb > 0.0); });
  std::ranges::stable_sort(groups, std::greater(), &Group::kept_mb);
  return groups;
}

// The value that a goal is about: time of the stage, or its memory.
double ValueOf(const StageCost& cost, bool memory) {
  return memory ? cost.memory_mb : cost.total_ms();
}

// The fewest operators to move from a stage so that its value falls below the
// goal, with the plan after the move; nothing if the stage would be empty.
// Values fall with the number except where recomputation changes or a tensor at
// the cut is large, hence the scan below the bound that bisection finds.
std::optional<OperatorPlan> MoveFewest(const OperatorModel& model,
                                       const OperatorPlan& plan, int stage,
                                       int step, double goal, bool memory) {
  constexpr int kScanned = 16;
  const auto after = [&](int count, OperatorPlan& moved) {
    moved = plan;
    if (count > 0) {
      MoveOperators(moved, stage, step, count);
      FitRecomputation(model, moved, stage);
    }
    return ValueOf(model.Cost(model.ViewOf(moved, stage)), memory) < goal;
  };
  OperatorPlan moved;
  int low = -1;  // does not reach the goal
  int high = plan.end(stage) - plan.begin(stage) - 1;
  if (!after(high, moved)) {
    return std::nullopt;
  }
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    (after(middle, moved) ? high : low) = middle;
  }
  for (int count = std::max(0, high - kScanned); count <= high; ++count) {
    if (after(count, moved)) {
      FitRecomputation(model, moved, stage + step);
      return moved;
    }
  }
  return std::nullopt;
}

// Moves operators stage by stage from `stage` to `partner`; nothing if the last
// stage of the relay does not reach the goal.
std::optional<OperatorPlan> RelayTo(const OperatorModel& model,
                                    OperatorPlan plan, int stage, int partner,
                                    double goal, bool memory) {
  const int step = stage < partner ? 1 : -1;
  for (; stage != partner; stage += step) {
    std::optional<OperatorPlan> moved =
        MoveFewest(model, plan, stage, step, goal, memory);
    if (!moved) {
      return std::nullopt;
    }
    plan = *std::move(moved);
  }
  if (!(ValueOf(model.Cost(model.ViewOf(plan, stage)), memory) < goal)) {
    return std::nullopt;
  }
  return plan;
}

int Slowest(const PlanCost& cost, bool memory) {
  const auto worst = std::ranges::max_element(
      cost.stages, {},
      [&](const StageCost& stage) { return ValueOf(stage, memory); });
  return static_cast<int>(worst - cost.stages.begin());
}

int PartnerOf(const PlanCost& cost, int bottleneck, bool memory) {
  if (memory) {
    const auto best =
        std::ranges::min_element(cost.stages, {}, &StageCost::memory_mb);
    return static_cast<int>(best - cost.stages.begin());
  }
  const std::vector<int> order = IdlestFirst(cost);
  return order[0] == bottleneck && order.size() > 1 ? order[1] : order[0];
}

}  // namespace

CostedPlan Costed(const OperatorModel& model, OperatorPlan plan) {
  PlanCost cost = model.Cost(plan);
  return {std::move(plan), std::move(cost)};
}

bool Fits(const OperatorModel& model, const PlanCost& cost) {
  return cost.memory_mb <= model.job().memory_limit_mb;
}

std::pair<bool, double> Score(const OperatorModel& model,
                              const PlanCost& cost) {
  return Fits(model, cost) ? std::pair(false, cost.iteration_ms)
                           : std::pair(true, cost.memory_mb);
}

void FitRecomputation(const OperatorModel& model, OperatorPlan& plan,
                      int stage) {
  const StageView view = model.ViewOf(plan, stage);
  for (int op = view.begin; op < view.end; ++op) {
    plan.choices[op].recomputed = 0;
  }
  const double limit_mb = model.job().memory_limit_mb;
  double memory_mb = model.MemoryMb(view);
  if (memory_mb <= limit_mb || !std::isfinite(memory_mb)) {
    return;
  }
  for (Group& group : GroupsOf(model, plan, view)) {
    const double each_mb =
        group.kept_mb / static_cast<double>(group.operators.size());
    while (group.recomputed < group.operators.size()) {
      double saved_mb = 0.0;
      while (saved_mb < memory_mb - limit_mb &&
             group.recomputed < group.operators.size()) {
        const int op = group.operators[group.recomputed++];
        plan.choices[op].recomputed = 1;
        if (op + 1 < view.end) {
          plan.choices[op + 1].recomputed = 1;
        }
        saved_mb += each_mb;
      }
      memory_mb = model.MemoryMb(view);
      if (memory_mb <= limit_mb) {
        return;
      }
    }
  }
}

void FitRecomputation(const OperatorModel& model, OperatorPlan& plan) {
  for (int stage = 0; stage < plan.stages(); ++stage) {
    FitRecomputation(model, plan, stage);
  }
}

bool ChooseSizes(const OperatorModel& model, OperatorPlan& plan, int stage,
                 int gpus) {
  const int begin = plan.begin(stage);
  const int end = plan.end(stage);
  std::pair<bool, double> best = {true,
                                  std::numeric_limits<double>::infinity()};
  std::vector<OperatorChoice> chosen;
  OperatorPlan tried = plan;
  const int gpus_log2 = std::countr_zero(static_cast<unsigned>(gpus));
  for (int tp_log2 = 0; tp_log2 <= gpus_log2; ++tp_log2) {
    for (int op = begin; op < end; ++op) {
      tried.choices[op].Resize(tp_log2, gpus_log2 - tp_log2);
    }
    if (tried.micro_batch % (gpus >> tp_log2) != 0) {
      continue;
    }
    FitRecomputation(model, tried, stage);
    const StageCost cost = model.Cost(model.ViewOf(tried, stage));
    if (!std::isfinite(cost.total_ms())) {
      continue;
    }
    const bool exceeds = cost.memory_mb > model.job().memory_limit_mb;
    const std::pair score(exceeds, exceeds ? cost.memory_mb : cost.total_ms());
    if (score < best) {
      best = score;
      chosen.assign(tried.choices.begin() + begin, tried.choices.begin() + end);
    }
  }
  std::copy(chosen.begin(), chosen.end(), plan.choices.begin() + begin);
  return !chosen.empty();
}

bool Scale(const OperatorModel& model, OperatorPlan& plan, int stage,
           const SizeChange& change) {
  for (int op = plan.begin(stage); op < plan.end(stage); ++op) {
    OperatorChoice& choice = plan.choices[op];
    if (!choice.Resize(choice.tp_log2 + change.tp_log2,
                       choice.dp_log2 + change.dp_log2) ||
        plan.micro_batch % (1 << choice.dp_log2) != 0 ||
        model.Profile(op, plan.micro_batch, choice) == nullptr) {
      return false;
    }
  }
  return true;
}

void MoveOperators(OperatorPlan& plan, int stage, int step, int count) {
  const bool forward = step > 0;
  const int begin = forward ? plan.end(stage) - count : plan.begin(stage);
  const OperatorChoice neighbor =
      plan.choices[forward ? begin + count : begin - 1];
  for (int op = begin; op < begin + count; ++op) {
    plan.choices[op].Resize(neighbor.tp_log2, neighbor.dp_log2);
    plan.choices[op].recomputed = 0;
  }
  plan.first[forward ? stage + 1 : stage] -= step * count;
}

CostedPlan Relay(const OperatorModel& model, const CostedPlan& from,
                 int bottleneck, std::int64_t& explored) {
  constexpr int kMostSteps = 5;
  constexpr std::array kGapsLeft = {0.4, 0.2, 0.0};  // tight to loose
  CostedPlan current = from;
  const bool memory = !Fits(model, from.cost);
  for (int i = 0; i < kMostSteps; ++i) {
    const int partner = PartnerOf(current.cost, bottleneck, memory);
    if (partner == bottleneck) {
      break;
    }
    const auto value = [&](int stage) {
      return ValueOf(current.cost.stages[stage], memory);
    };
    std::optional<OperatorPlan> moved;
    for (const double left : kGapsLeft) {
      const double goal =
          memory
              ? model.job().memory_limit_mb
              : value(bottleneck) - left * (value(bottleneck) - value(partner));
      ++explored;
      moved = RelayTo(model, current.plan, bottleneck, partner, goal, memory);
      if (moved || memory) {
        break;
      }
    }
    if (!moved) {
      break;
    }
    current = Costed(model, *std::move(moved));
    bottleneck = Slowest(current.cost, memory);
  }
  return current;
}

std::vector<int> LargestFirst(const std::vector<double>& values) {
  std::vector<int> order = common::Indices(values.size());
  std::ranges::stable_sort(order, std::greater(),
                           [&](int i) { return values[i]; });
  return order;
}

std::vector<int> IdlestFirst(const PlanCost& cost) {
  std::vector<double> idle(cost.stages.size());
  for (std::size_t i = 0; i < idle.size(); ++i) {
    const StageCost& stage = cost.stages[i];
    idle[i] = (cost.iteration_ms - cost.stage_iteration_ms[i]) * stage.gpus *
              (stage.recompute_ms > 0.0 ? 0.5 : 1.0);
  }
  return LargestFirst(idle);
}

}  // namespace planners
