#include "planners/aceso/conversions.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "common/ranges.h"

namespace planners {
namespace {

// The names of the core of attention in Aceso's profiles.
constexpr std::array<std::string_view, 4> kAttentionCore = {
    "enc-attention-score", "enc-attention-softmax", "enc-attention-dropout",
    "enc-attention-context"};

bool Recomputes(const OperatorModel& model, int op,
                trials::Recomputation recomputation) {
  if (recomputation == trials::kRecomputeSelective) {
    const std::string_view name = model.table().names()[model.NameOf(op)];
    return common::Contains(kAttentionCore, name);
  }
  return recomputation == trials::kRecomputeFull &&
         model.TraitsOf(op).recomputable;
}

bool IsPowerOfTwo(int size) {
  return std::has_single_bit(static_cast<unsigned>(size));
}

// The number of layers before an operator, to the nearest one.
int LayersBefore(const std::vector<int>& first, int operators, int op) {
  const auto next = std::ranges::upper_bound(first, op);
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
  std::map<int, int> operators;  // by the logarithm of tp
  for (int op = plan.begin(stage); op < plan.end(stage); ++op) {
    ++operators[plan.choices[op].tp_log2];
  }
  const int tp_log2 = std::ranges::max_element(
                          operators, {}, &std::pair<const int, int>::second)
                          ->first;
  const int tp = 1 << tp_log2;
  return {.dp = plan.GpusOf(stage) / tp, .tp = tp};
}

// The share of the activations of a stage's layers that the plan recomputes.
double RecomputedShare(const OperatorModel& model, const OperatorPlan& plan,
                       int stage) {
  double recomputed_mb = 0.0;
  double all_mb = 0.0;
  for (int op = plan.begin(stage); op < plan.end(stage); ++op) {
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

std::vector<int> LayersOf(const OperatorModel& model) {
  std::vector<int> first;
  for (int op = 0; op < model.operators(); ++op) {
    if (model.TraitsOf(op).begins_layer) {
      first.push_back(op);
    }
  }
  return first;
}

OperatorPlan EqualStages(const OperatorModel& model, int stages) {
  const std::vector<int> layers = LayersOf(model);
  OperatorPlan plan;
  const int count = static_cast<int>(layers.size());
  for (int s = 0; s < stages; ++s) {
    plan.first.push_back(s == 0 ? 0 : layers[s * count / stages]);
  }
  plan.first.push_back(model.operators());
  plan.choices.resize(model.operators());
  return plan;
}

void SetSizes(const OperatorModel& model, int tp, int dp,
              trials::Recomputation recomputation, OperatorPlan& plan) {
  for (int op = 0; op < model.operators(); ++op) {
    plan.choices[op] =
        OperatorChoice::Of(tp, dp, 0, Recomputes(model, op, recomputation));
  }
}

std::optional<OperatorPlan> PlanOf(const OperatorModel& model,
                                   const trials::ParallelConfig& config) {
  const int layers = static_cast<int>(LayersOf(model).size());
  const int batch = model.job().batch;
  const int micro_batch = config.micro_batch_size > 0
                              ? config.dp * config.micro_batch_size
                              : batch / config.microbatches;
  if (!IsPowerOfTwo(config.tp) || !IsPowerOfTwo(config.dp) ||
      config.pp > layers || config.cp > 1 ||
      micro_batch * config.microbatches != batch ||
      micro_batch % config.dp != 0) {
    return std::nullopt;
  }
  OperatorPlan plan = EqualStages(model, config.pp);
  plan.micro_batch = micro_batch;
  SetSizes(model, config.tp, config.dp,
           static_cast<trials::Recomputation>(config.grad_checkpoint), plan);
  return plan;
}

trials::Plan LayerPlanOf(const OperatorModel& model, const OperatorPlan& plan) {
  constexpr double kRounding = 1e-9;
  const std::vector<int> first = LayersOf(model);
  trials::Plan result;
  std::vector<std::vector<int>> layers;
  int begin = 0;
  for (int s = 0; s < plan.stages(); ++s) {
    const int end = LayersBefore(first, model.operators(), plan.end(s));
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

}  // namespace planners
