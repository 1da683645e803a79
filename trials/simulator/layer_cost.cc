#include "trials/simulator/layer_cost.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "trials/simulator/layer_operators.h"

namespace trials {
namespace {

// The collectives of sequence parallelism around `layers` layers.
void GatherAndScatter(const Framework& framework, double layers, double bytes,
                      Module& module) {
  // The share of the bytes in half precision that a gather moves.
  const double gather =
      module.fp8() && framework.collectives.fp8_gathers ? 0.5 : 1.0;
  const double repeated = framework.collectives.gather_again ? layers : 0;
  const double both = layers * (1 + gather);  // a gather and a scatter
  module.Communicate({0, both, 0}, {0, both, gather * repeated}, bytes);
  LayerCost& cost = module.cost();
  if (framework.recomputation.selective_by_operator && repeated == 0) {
    cost.selective_collectives = {0, gather * layers, 0};
  }
  if (cost.last_forward_s > 0.0) {
    cost.last_collectives = {0, 1, 0};
  }
}

bool HasMixer(const Model& model) {
  return model.attention || model.state_inner > 0;
}

// The tensor-parallel collectives around the layers of a block.
void AddBlockCollectives(const LayerShape& shape, Module& module) {
  const Model& model = shape.model;
  const double bytes = shape.element_bytes * shape.tokens * shape.hidden;
  // Parallel layers share their input and the sum of their results. Whole
  // experts take the tokens as sequence parallelism divides them.
  const bool apart = model.experts > 0 && shape.expert_tp < shape.tp &&
                     model.shared_ffn_size == 0 && shape.sp;
  const int parts = (HasMixer(model) ? 1 : 0) +
                    (model.cross_attention ? 1 : 0) +
                    (HasFeedForward(model) ? 1 : 0);
  const double layers = model.parallel_layers || apart ? 1 : parts;
  if (shape.sp) {
    GatherAndScatter(shape.framework, layers, bytes, module);
  } else if (shape.tp > 1) {
    const double more =
        model.gated_ffn ? shape.framework.collectives.gate_reductions - 1 : 0;
    module.Communicate({layers}, {layers + more}, bytes);
  }
}

void AddNorms(const LayerShape& shape, int count, Module& module) {
  for (int i = 0; i < count; ++i) {
    AddNorm(shape, module);
  }
  if (count > 0) {
    module.EndOperator("norm");
  }
}

// A norm that is recomputed does not keep its result, which is the input of the
// weights that follow.
void AddNormBefore(const LayerShape& shape, Weights next, Module& module) {
  const LayerCost before = module.cost();
  AddNorms(shape, 1, module);
  module.Use(next);
  if (shape.framework.recomputation.recompute_norms) {
    module.Repeat(before, module.InputBytes(LinearInputBytes(shape)));
  }
}

// Ends a part of a block.
void EndPart(const LayerShape& shape, int norms, Module& module) {
  AddNorms(shape, norms, module);
  AddResidual(shape, module);
  module.EndOperator("residual");
}

// Attention, a state-space layer or both.
void AddMixer(const LayerShape& shape, Module& module) {
  const Framework::Dispatch& dispatch = shape.framework.dispatch;
  if (shape.model.attention) {
    AddAttention(shape, module);
    if (shape.model.kv_rank > 0) {
      module.AddDispatch(dispatch.latent_dispatch_s,
                         dispatch.latent_dispatch_s);
    }
  }
  if (shape.model.state_inner > 0) {
    AddStateSpace(shape, module);
  }
}

void AddBlock(const LayerShape& shape, Module& module) {
  const Framework::Dispatch& dispatch = shape.framework.dispatch;
  const Model& model = shape.model;
  // One norm before attention, one before the feed-forward layer, two after.
  const int norms = model.norms - (model.cross_attention ? 1 : 0);
  const bool mixer = HasMixer(model);
  module.AllowFp8();
  AddNormBefore(shape, mixer ? Weights::kAttention : Weights::kFeedForward,
                module);
  if (mixer) {
    AddMixer(shape, module);
    EndPart(shape, norms > 2 ? 1 : 0, module);
  }
  if (model.cross_attention) {
    AddNormBefore(shape, Weights::kAttention, module);
    AddAttention(shape, module);
    EndPart(shape, 0, module);
  }
  if (HasFeedForward(model)) {
    if (mixer && norms > 1) {
      AddNormBefore(shape, Weights::kFeedForward, module);
    }
    if (model.experts > 0) {
      AddExperts(shape, module);
      module.AddDispatch(dispatch.expert_dispatch_s,
                         dispatch.expert_dispatch_s);
    } else {
      AddFeedForward(shape, module);
    }
    EndPart(shape, norms > 3 ? 1 : 0, module);
  }
  if (model.block_parameters > 0) {
    module.Parameter(static_cast<double>(model.block_parameters) / shape.tp);
  }
  AddBlockCollectives(shape, module);
  module.AddDispatch(dispatch.block_dispatch_s,
                     dispatch.block_backward_dispatch_s);
}

void AddEmbedding(const LayerShape& shape, Module& module) {
  module.Use(Weights::kEmbeddings);
  const Model& model = shape.model;
  const double e = shape.element_bytes;
  const double elements = shape.tokens * shape.hidden;
  if (model.patch_size > 0) {
    module.Linear(shape.tokens, model.patch_size, shape.hidden, /*bias=*/true);
    module.Save(e * shape.tokens * model.patch_size);
    module.Parameter(shape.hidden);  // class token
  } else if (model.vocab_size > 0) {
    const double table = model.vocab_size * shape.hidden / shape.tp;
    // Look-up; the gradient is a zeroed table with rows added to it.
    module.Elementwise(2 * e * elements, 1, e * table + 3 * e * elements, 3);
    module.Parameter(table);
  }
  if (model.max_positions > 0) {
    module.Elementwise(8 * e * elements, 4, 4 * e * elements, 3);
    module.Parameter(model.max_positions * shape.hidden);
  }
  if (model.token_types > 0) {
    module.Parameter(model.token_types * shape.hidden);
  }
  if (model.embedding_norm) {
    AddNorm(shape, module);
  }
  if (shape.sp) {  // sums of the table's shares; backward gathers the gradient
    module.Communicate({0, 1, 0}, {0, 1, 0}, e * elements);
  } else if (shape.tp > 1 && model.patch_size == 0) {
    module.Communicate({1}, {}, e * elements);
  }
  module.EndOperator("embedding");
}

// The head of a classifier, on the first token of each sequence.
void AddClassifier(const LayerShape& shape, Module& module) {
  const double sequences = shape.sequences;
  const double hidden = shape.hidden;
  if (shape.model.pooler) {
    module.Linear(sequences, hidden, hidden, true);
  }
  if (shape.model.classes > 0) {
    module.Linear(sequences, hidden, shape.model.classes, true);
  }
  const double bytes = 4 * shape.element_bytes * sequences * hidden;
  module.Elementwise(bytes, 3, bytes, 4);
  module.EndOperator("head");
}

// The larger of two peaks: the loss, and the product whose backward follows,
// with the gradient of the logits, of its input and, under sequence
// parallelism, the gathered input.
double LogitsBytes(const LayerShape& shape, double logits) {
  const Framework& framework = shape.framework;
  const double e = shape.element_bytes;
  const double loss = framework.kernels.fused_cross_entropy
                          ? e
                          : framework.kernels.loss_bytes_per_logit;
  const double hidden_states =
      (shape.sp && framework.collectives.gather_again ? 2 : 1) * shape.tokens;
  const int chunks = shape.training.loss_chunks;
  // Chunks add up the gradient of the hidden states in fp32.
  const double sums = chunks > 1 ? 4.0 * shape.tokens * shape.hidden : 0.0;
  // Autocast makes a copy of the upcast head for the product.
  constexpr double kHalf = 2.0;
  const double copy =
      shape.training.RestBytes(kHalf) > kHalf
          ? kHalf * shape.hidden * shape.model.vocab_size / shape.tp
          : 0.0;
  return sums + copy +
         std::max(loss * logits / chunks,
                  e * (logits / chunks + hidden_states * shape.hidden));
}

void AddHead(const LayerShape& shape, Module& module) {
  const Model& model = shape.model;
  const Framework& framework = shape.framework;
  const double e = shape.element_bytes;
  if (model.final_norm) {
    AddNorm(shape, module);
    module.EndOperator("final-norm");
  }
  module.Use(Weights::kEmbeddings);
  if (model.pooler || model.classes > 0) {
    AddClassifier(shape, module);
    return;
  }
  const double vocabulary =
      std::floor(static_cast<double>(model.vocab_size) / shape.tp);
  const double logits = shape.tokens * vocabulary;
  LayerCost& cost = module.cost();
  const std::size_t trained = cost.parameters.size();
  module.Linear(shape.tokens, shape.hidden, vocabulary, model.head_bias);
  if (model.tied_embeddings) {  // the embedding's table
    if (cost.parameters.size() > trained) {
      cost.parameters.erase(cost.parameters.begin() +
                            static_cast<std::ptrdiff_t>(trained));
    } else {
      cost.frozen -= shape.hidden * vocabulary;
      cost.frozen_ends -= shape.hidden * vocabulary;
    }
  }
  module.Save(module.InputBytes(e * shape.outer_tokens * shape.hidden));
  const bool fused = framework.kernels.fused_operators;
  // In place: two passes read the logits, the second writes the gradient, and
  // backward scales it.
  const bool in_place = framework.kernels.fused_cross_entropy;
  module.Elementwise(
      (in_place ? 3 * e : framework.kernels.loss_forward_bytes) * logits,
      fused ? 3 : 5,
      (in_place ? 2 * e : framework.kernels.loss_backward_bytes) * logits,
      fused ? 2 : 6);
  module.EndOperator("head");
  const double bytes = e * shape.tokens * shape.hidden;
  module.cost().logits_bytes = LogitsBytes(shape, logits);
  if (shape.sp) {
    const double repeated = framework.collectives.gather_again ? 1 : 0;
    module.Communicate({0, 1, 0}, {0, 1, repeated}, bytes);
  } else if (shape.tp > 1) {  // gradient of the hidden states; sums are small
    module.Communicate({}, {1}, bytes);
  }
}

// Selective recomputation by operator repeats everything that is not kept.
// `input_bytes`: of the block, which are kept.
void RepeatUnlessKept(double input_bytes, LayerCost& block) {
  block.selective_forward_s = block.forward_s - block.kept_forward_s;
  block.selective_dispatch_s = block.forward_dispatch_s - block.kept_dispatch_s;
  block.selective_bytes =
      std::max(0.0, block.saved_bytes - block.kept_bytes - input_bytes);
}

// Adds a share or a multiple of a module's cost; its tensors stay apart.
void AddTimes(double times, const LayerCost& from, LayerCost& to) {
  constexpr auto kSums =
      std::to_array<double LayerCost::*>({&LayerCost::forward_s,
                                          &LayerCost::backward_s,
                                          &LayerCost::weights_s,
                                          &LayerCost::accumulate_s,
                                          &LayerCost::forward_dispatch_s,
                                          &LayerCost::backward_dispatch_s,
                                          &LayerCost::saved_bytes,
                                          &LayerCost::placeholder_bytes,
                                          &LayerCost::core_forward_s,
                                          &LayerCost::core_backward_s,
                                          &LayerCost::kept_forward_s,
                                          &LayerCost::kept_dispatch_s,
                                          &LayerCost::kept_bytes,
                                          &LayerCost::selective_forward_s,
                                          &LayerCost::selective_dispatch_s,
                                          &LayerCost::selective_bytes,
                                          &LayerCost::last_forward_s,
                                          &LayerCost::ring_bytes,
                                          &LayerCost::frozen,
                                          &LayerCost::frozen_experts,
                                          &LayerCost::frozen_ends});
  for (const auto sum : kSums) {
    to.*sum += times * (from.*sum);
  }
  // Messages count as ones of the size that `to` has.
  const double messages =
      to.collective_bytes > 0.0
          ? times * from.collective_bytes / to.collective_bytes
          : times;
  for (const auto sum :
       {&LayerCost::selective_collectives, &LayerCost::last_collectives,
        &LayerCost::forward_collectives, &LayerCost::backward_collectives}) {
    to.*sum = to.*sum + messages * (from.*sum);
  }
  to.collective_bytes = std::max(to.collective_bytes, from.collective_bytes);
  to.working_bytes = std::max(to.working_bytes, from.working_bytes);
  to.all_to_alls = std::max(to.all_to_alls, from.all_to_alls);
  to.all_to_all_bytes += times * from.all_to_all_bytes;
}

// The mean of the costs of blocks with their numbers. Its tensors are those of
// the block with the most of them, scaled to the mean number of parameters.
LayerCost MeanBlock(const std::vector<std::pair<int, LayerCost>>& blocks) {
  double number = 0.0;
  for (const auto& [count, cost] : blocks) {
    number += count;
  }
  LayerCost mean;
  for (const auto list :
       {&LayerCost::parameters, &LayerCost::expert_parameters}) {
    double total = 0.0;
    double most = 0.0;
    for (const auto& [count, cost] : blocks) {
      const double own =
          std::accumulate((cost.*list).begin(), (cost.*list).end(), 0.0);
      total += count * own / number;
      if (own > most) {
        most = own;
        mean.*list = cost.*list;
      }
    }
    for (double& elements : mean.*list) {
      elements *= total / most;
    }
  }
  for (const auto& [count, cost] : blocks) {
    AddTimes(count / number, cost, mean);
  }
  return mean;
}

// A tower runs before the first block, on its own tokens.
void AddTower(int layers, const LayerCost& block, LayerCost& embedding) {
  AddTimes(layers, block, embedding);
  for (const auto list :
       {&LayerCost::parameters, &LayerCost::expert_parameters}) {
    for (int layer = 0; layer < layers; ++layer) {
      (embedding.*list)
          .insert((embedding.*list).end(), (block.*list).begin(),
                  (block.*list).end());
    }
  }
}

LayerCosts Compute(const Workload& workload, const Framework& framework,
                   const GpuModel& gpu, const Shard& shard,
                   std::vector<OperatorCost>* operators) {
  const LayerShape shape = ShapeOf(workload, framework, gpu, shard);
  Module::Shapes shapes;  // of all weights so far
  const auto cost = [&](const LayerShape& of, auto add,
                        std::vector<OperatorCost>* receiver) {
    Module module(gpu, framework, receiver, workload.training);
    module.shapes() = shapes;
    add(of, module);
    shapes = module.shapes();
    return module.cost();
  };
  LayerCosts costs;
  costs.block = cost(shape, AddBlock, operators);
  costs.embedding = cost(shape, AddEmbedding, operators);
  costs.head = cost(shape, AddHead, operators);
  costs.boundary_bytes =
      shape.element_bytes * shape.outer_tokens * shape.hidden;
  const auto of_model = [&](const Model& model, auto add) {
    Workload other = workload;
    other.model = model;
    if (model.tokens > 0) {
      other.sequence_length = model.tokens;
    }
    return cost(ShapeOf(other, framework, gpu, shard), add,
                /*receiver=*/nullptr);
  };
  const auto add_others = [&](const Model& model) {
    if (model.other_parameters > 0) {
      costs.embedding.parameters.push_back(
          static_cast<double>(model.other_parameters) / shard.tp);
    }
  };
  for (const Model& tower : workload.model.towers) {
    AddTower(tower.layers, of_model(tower, AddBlock), costs.embedding);
    AddTower(1, of_model(tower, AddEmbedding), costs.embedding);
    add_others(tower);
  }
  add_others(workload.model);
  if (!workload.model.kinds.empty()) {
    std::vector<std::pair<int, LayerCost>> blocks = {
        {OwnLayers(workload.model), costs.block}};
    for (const Model& kind : workload.model.kinds) {
      blocks.emplace_back(kind.layers, of_model(kind, AddBlock));
    }
    costs.block = MeanBlock(blocks);
  }
  if (workload.model.dense_layers > 0) {
    costs.dense_block = of_model(DenseModel(workload.model), AddBlock);
  }
  if (framework.recomputation.selective_by_operator) {
    RepeatUnlessKept(costs.boundary_bytes, costs.block);
    RepeatUnlessKept(costs.boundary_bytes, costs.dense_block);
  }
  return costs;
}

}  // namespace

double LayerCost::ParameterCount() const {
  return std::accumulate(parameters.begin(), parameters.end(), 0.0) +
         ExpertParameterCount() + frozen;
}

double LayerCost::TrainedShare() const {
  const double all = ParameterCount();
  return all > 0.0 ? (all - frozen) / all : 1.0;
}

double LayerCost::ExpertParameterCount() const {
  return std::accumulate(expert_parameters.begin(), expert_parameters.end(),
                         0.0);
}

LayerCosts ComputeLayerCosts(const Workload& workload,
                             const Framework& framework, const GpuModel& gpu,
                             const Shard& shard) {
  return Compute(workload, framework, gpu, shard, nullptr);
}

std::vector<OperatorCost> ComputeOperatorCosts(const Workload& workload,
                                               const Framework& framework,
                                               const GpuModel& gpu,
                                               const Shard& shard) {
  std::vector<OperatorCost> operators;
  (void)Compute(workload, framework, gpu, shard, &operators);
  return operators;
}

}  // namespace trials
