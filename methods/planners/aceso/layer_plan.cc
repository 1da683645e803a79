#include "methods/planners/aceso/layer_plan.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "methods/planners/aceso/uniform_plan.h"

namespace methods {
namespace {

// The number of layers before an operator, to the nearest one.
int LayersBefore(const std::vector<int>& first, int operators, int op) {
  const auto next = std::upper_bound(first.begin(), first.end(), op);
  const int begun = static_cast<int>(next - first.begin());
  if (begun == 0) {
    return 0;
  }
  const int begin = *(next - 1);
  // The last layer is as long as the others; the head follows it.
  const int length = first.size() > 1 ? first[1] - first[0] : operators - begin;
  return 2 * (op - begin) >= length ? begun : begun - 1;
}

// dp and tp of most operators of a stage.
trials::PlanStage StageSizes(const OperatorPlan& plan, int stage) {
  const auto s = static_cast<std::size_t>(stage);
  std::map<int, int> operators;  // by the logarithm of tp
  for (int op = plan.first[s]; op < plan.first[s + 1]; ++op) {
    ++operators[plan.choices[op].tp_log2];
  }
  const int tp_log2 = std::max_element(operators.begin(), operators.end(),
                                       [](const auto& a, const auto& b) {
                                         return a.second < b.second;
                                       })
                          ->first;
  const int tp = 1 << tp_log2;
  return {.dp = plan.GpusOf(stage) / tp, .tp = tp};
}

// The share of the activations of a stage's layers that the plan recomputes.
double RecomputedShare(const OperatorModel& model, const OperatorPlan& plan,
                       int stage) {
  const auto s = static_cast<std::size_t>(stage);
  double recomputed_mb = 0.0;
  double all_mb = 0.0;
  for (int op = plan.first[s]; op < plan.first[s + 1]; ++op) {
    const OperatorChoice& choice = plan.choices[op];
    const OperatorTraits& traits = model.TraitsOf(op);
    const OperatorProfile* profile =
        model.Profile(op, plan.micro_batch, choice);
    if (profile == nullptr || !traits.recomputable) {
      continue;
    }
    const double mb = traits.kept * profile->activations_mb;
    all_mb += mb;
    recomputed_mb += choice.recomputed != 0 ? mb : 0.0;
  }
  return all_mb > 0.0 ? recomputed_mb / all_mb : 0.0;
}

}  // namespace

trials::Plan LayerPlanOf(const OperatorModel& model, const OperatorPlan& plan) {
  constexpr double kRounding = 1e-9;
  const std::vector<int> first = LayersOf(model);
  trials::Plan result;
  std::vector<std::vector<int>> layers;
  int begin = 0;
  for (int s = 0; s < plan.stages(); ++s) {
    const int end = LayersBefore(first, model.operators(),
                                 plan.first[static_cast<std::size_t>(s) + 1]);
    trials::PlanStage stage = StageSizes(plan, s);
    stage.recomputed_layers = static_cast<int>(
        std::ceil((end - begin) * RecomputedShare(model, plan, s) - kRounding));
    result.stages.push_back(stage);
    layers.push_back({end - begin});
    begin = end;
  }
  result.shared.microbatches = model.job().batch / plan.micro_batch;
  SetLayers(layers, result);
  return result;
}

}  // namespace methods
