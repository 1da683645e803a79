#include "trials/simulator/layer_cost.h"

#include <algorithm>
#include <cmath>
#include <numeric>

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

// The tensor-parallel collectives around the layers of a block.
void AddBlockCollectives(const LayerShape& shape, Module& module) {
  const Model& model = shape.model;
  const double bytes = shape.element_bytes * shape.tokens * shape.hidden;
  // Parallel layers share their input and the sum of their results. Whole
  // experts take the tokens as sequence parallelism divides them.
  const bool apart = model.experts > 0 && shape.expert_tp < shape.tp &&
                     model.shared_ffn_size == 0 && shape.sp;
  const double layers = model.parallel_layers || apart ? 1 : 2;
  if (shape.sp) {
    GatherAndScatter(shape.framework, layers, bytes, module);
  } else if (shape.tp > 1) {
    module.Communicate({layers}, {layers}, bytes);
  }
}

void AddBlock(const LayerShape& shape, Module& module) {
  const Framework& framework = shape.framework;
  const Model& model = shape.model;
  // One norm before attention, one before the feed-forward layer, two after.
  const auto norms = [&](int count) {
    for (int i = 0; i < count; ++i) {
      AddNorm(shape, module);
    }
    if (count > 0) {
      module.EndOperator("norm");
    }
  };
  // A norm that is recomputed does not keep its result for the layer.
  const auto norm_before = [&] {
    const LayerCost before = module.cost();
    norms(1);
    if (framework.recomputation.recompute_norms) {
      module.Repeat(before, module.InputBytes(LinearInputBytes(shape)));
    }
  };
  module.AllowFp8();
  norm_before();
  AddAttention(shape, module);
  if (model.kv_rank > 0) {
    module.AddDispatch(framework.dispatch.latent_dispatch_s,
                       framework.dispatch.latent_dispatch_s);
  }
  norms(model.norms > 2 ? 1 : 0);
  AddResidual(shape, module);
  module.EndOperator("residual");
  if (model.norms > 1) {
    norm_before();
  }
  if (model.experts > 0) {
    AddExperts(shape, module);
    module.AddDispatch(framework.dispatch.expert_dispatch_s,
                       framework.dispatch.expert_dispatch_s);
  } else {
    AddFeedForward(shape, module);
  }
  norms(model.norms > 3 ? 1 : 0);
  AddResidual(shape, module);
  module.EndOperator("residual");
  AddBlockCollectives(shape, module);
  module.AddDispatch(framework.dispatch.block_dispatch_s,
                     framework.dispatch.block_backward_dispatch_s);
}

void AddEmbedding(const LayerShape& shape, Module& module) {
  const Model& model = shape.model;
  const double e = shape.element_bytes;
  const double elements = shape.tokens * shape.hidden;
  if (model.patch_size > 0) {
    module.Linear(shape.tokens, model.patch_size, shape.hidden, /*bias=*/true);
    module.Save(e * shape.tokens * model.patch_size);
    module.Parameter(shape.hidden);  // class token
  } else {
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
  return std::max(loss * logits, e * (logits + hidden_states * shape.hidden));
}

void AddHead(const LayerShape& shape, Module& module) {
  const Model& model = shape.model;
  const Framework& framework = shape.framework;
  const double e = shape.element_bytes;
  if (model.final_norm) {
    AddNorm(shape, module);
    module.EndOperator("final-norm");
  }
  if (model.pooler || model.classes > 0) {
    AddClassifier(shape, module);
    return;
  }
  const double vocabulary =
      std::floor(static_cast<double>(model.vocab_size) / shape.tp);
  const double logits = shape.tokens * vocabulary;
  module.Linear(shape.tokens, shape.hidden, vocabulary, model.head_bias);
  if (model.tied_embeddings) {
    module.cost().parameters.pop_back();  // the embedding's table
  }
  module.Save(e * shape.outer_tokens * shape.hidden);
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

LayerCosts Compute(const Workload& workload, const Framework& framework,
                   const GpuModel& gpu, const Shard& shard,
                   std::vector<OperatorCost>* operators) {
  const LayerShape shape = ShapeOf(workload, framework, gpu, shard);
  Module::Shapes shapes;  // of all weights so far
  const auto cost = [&](const LayerShape& of, auto add,
                        std::vector<OperatorCost>* receiver) {
    Module module(gpu, framework, receiver);
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
  if (workload.model.dense_layers > 0) {
    Workload dense = workload;
    dense.model = DenseModel(workload.model);
    costs.dense_block = cost(ShapeOf(dense, framework, gpu, shard), AddBlock,
                             /*receiver=*/nullptr);
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
         ExpertParameterCount();
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
