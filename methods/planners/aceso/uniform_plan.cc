#include "methods/planners/aceso/uniform_plan.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace methods {
namespace {

// The names of the core of attention in Aceso's profiles.
constexpr std::array<std::string_view, 4> kAttentionCore = {
    "enc-attention-score", "enc-attention-softmax", "enc-attention-dropout",
    "enc-attention-context"};

bool Recomputes(const OperatorModel& model, int op,
                trials::Recomputation recomputation) {
  if (recomputation == trials::kRecomputeSelective) {
    const std::string_view name = model.table().names()[model.NameOf(op)];
    return std::find(kAttentionCore.begin(), kAttentionCore.end(), name) !=
           kAttentionCore.end();
  }
  return recomputation == trials::kRecomputeFull &&
         model.TraitsOf(op).recomputable;
}

bool IsPowerOfTwo(int size) {
  return std::has_single_bit(static_cast<unsigned>(size));
}

std::uint8_t ExponentOf(int size) {
  return static_cast<std::uint8_t>(
      std::countr_zero(static_cast<unsigned>(size)));
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
    plan.choices[op] = {ExponentOf(tp), ExponentOf(dp), 0,
                        static_cast<std::uint8_t>(
                            Recomputes(model, op, recomputation) ? 1 : 0)};
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

}  // namespace methods
