#include "trials/simulator/layer_cost.h"

#include <cmath>
#include <numeric>

#include "trials/simulator/layer_operators.h"

namespace trials {
namespace {

void AddBlock(const LayerShape& shape, Module& module) {
  const Framework& framework = shape.framework;
  module.AllowFp8();
  AddNorm(shape, module);
  module.EndOperator("norm");
  AddAttention(shape, module);
  AddResidual(shape, module);
  module.EndOperator("residual");
  AddNorm(shape, module);
  module.EndOperator("norm");
  if (shape.model.experts > 0) {
    AddExperts(shape, module);
  } else {
    AddFeedForward(shape, module);
  }
  AddResidual(shape, module);
  module.EndOperator("residual");
  const double bytes = shape.element_bytes * shape.tokens * shape.hidden;
  if (shape.sp) {
    const double repeated = framework.gather_again ? 2 : 0;
    module.Communicate({0, 4, 0}, {0, 4, repeated}, bytes);
  } else if (shape.tp > 1) {
    module.Communicate({2}, {2}, bytes);
  }
  module.AddDispatch(framework.block_dispatch_s,
                     framework.block_backward_dispatch_s);
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
  module.Linear(shape.tokens, shape.hidden, vocabulary, false);
  if (model.tied_embeddings) {
    module.cost().parameters.pop_back();  // the embedding's table
  }
  module.Save(e * shape.outer_tokens * shape.hidden);
  const bool fused = framework.fused_operators;
  module.Elementwise(framework.loss_forward_bytes * logits,
                     fused ? 3 : 5,
                     framework.loss_backward_bytes * logits,
                     fused ? 2 : 6);
  module.EndOperator("head");
  module.cost().logits_bytes = framework.loss_bytes_per_logit * logits;
  const double bytes = e * shape.tokens * shape.hidden;
  if (shape.sp) {
    const double repeated = framework.gather_again ? 1 : 0;
    module.Communicate({0, 1, 0}, {0, 1, repeated}, bytes);
  } else if (shape.tp > 1) {  // gradient of the hidden states; sums are small
    module.Communicate({}, {1}, bytes);
  }
}

LayerCosts Compute(const Workload& workload,
                   const Framework& framework,
                   const GpuModel& gpu,
                   const Shard& shard,
                   std::vector<OperatorCost>* operators) {
  const LayerShape shape = ShapeOf(workload, framework, gpu, shard);
  const auto cost = [&](auto add) {
    Module module(gpu, framework, operators);
    add(shape, module);
    return module.cost();
  };
  return {cost(AddBlock),
          cost(AddEmbedding),
          cost(AddHead),
          shape.element_bytes * shape.outer_tokens * shape.hidden};
}

}  // namespace

double LayerCost::ParameterCount() const {
  return std::accumulate(parameters.begin(), parameters.end(), 0.0) +
         ExpertParameterCount();
}

double LayerCost::ExpertParameterCount() const {
  return std::accumulate(
      expert_parameters.begin(), expert_parameters.end(), 0.0);
}

LayerCosts ComputeLayerCosts(const Workload& workload,
                             const Framework& framework,
                             const GpuModel& gpu,
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
