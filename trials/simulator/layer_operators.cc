#include "trials/simulator/layer_operators.h"

#include <algorithm>

namespace trials {
namespace {

// BERT and GPT train with dropout, ViT by default does not.
bool HasDropout(const Model& model) {
  return model.dropout && model.max_positions > 0 && model.patch_size == 0;
}

// Bytes that a linear layer keeps of its input, which sequence parallelism
// gathers from the ranks.
double LinearInputBytes(const LayerShape& shape) {
  return shape.element_bytes * shape.hidden *
         (shape.framework.gather_again ? shape.outer_tokens : shape.tokens);
}

void AddRotary(const LayerShape& shape, Module& module) {
  if (shape.model.max_positions > 0) {
    return;  // learned positions are part of the embedding
  }
  const double e = shape.element_bytes;
  const double elements = shape.tokens * (shape.query + shape.key);
  if (shape.framework.fused_operators) {
    module.Elementwise(2 * e * elements, 1, 2 * e * elements, 1);
  } else {  // negate half, concatenate, two products, sum; q and k separately
    module.Elementwise(10 * e * elements, 10, 10 * e * elements, 10);
  }
}

// Scale, mask, softmax and dropout of n scores. The Llama family computes the
// softmax in fp32 and casts back.
void AddScores(const LayerShape& shape, double n, Module& module) {
  const Framework& framework = shape.framework;
  const double e = shape.element_bytes;
  const bool dropout = HasDropout(shape.model);
  if (framework.fused_operators) {
    module.Elementwise(framework.score_forward_bytes * n,
                       1,
                       framework.score_backward_bytes * n,
                       1);
    module.Save(e * n);
    module.Temporary(2 * e * n);
    module.EndOperator("softmax");
    if (dropout) {
      module.Elementwise((2 * e + 1) * n, 1, (2 * e + 1) * n, 1);
      module.Save((e + 1) * n);
      module.EndOperator("dropout");
    }
    return;
  }
  if (dropout) {
    module.Elementwise((8 * e + 1) * n, 4, (7 * e + 1) * n, 3);
    module.Save((2 * e + 1) * n);
    module.Temporary(3 * e * n);
  } else {
    module.Elementwise((6 * e + 8) * n, 4, (4 * e + 20) * n, 4);
    module.Save((e + 4) * n);
    module.Temporary((e + 8) * n);
  }
  module.EndOperator("softmax");
}

void AddFusedCore(const LayerShape& shape, Module& module) {
  const double e = shape.element_bytes;
  const double q_bytes = e * shape.tokens * shape.query;
  const double share = shape.model.causal ? 0.5 : 1.0;
  module.Flash(share * 4.0 * shape.tokens * shape.sequence * shape.query,
               2 * q_bytes + 2 * e * shape.tokens * shape.key * shape.cp,
               static_cast<int>(shape.cp));
  // The result is copied for the next product unless the kernel writes it in
  // that order.
  module.Save((shape.framework.fused_operators ? 1 : 2) * q_bytes +
              2 * e * shape.tokens * shape.key);
  module.EndOperator("core");
}

void AddStoredCore(const LayerShape& shape, Module& module) {
  const double q_bytes = shape.element_bytes * shape.tokens * shape.query;
  if (shape.key < shape.query) {  // copies key-value heads for all query heads
    module.Elementwise(3 * q_bytes, 2, 3 * q_bytes, 2);
  }
  module.Save(3 * q_bytes);  // q, and k and v as the products need them
  const double batch = shape.sequences * shape.heads;
  const double head = shape.model.head_size;
  const double rows = shape.sequence / shape.cp;
  module.Product({batch, rows, shape.sequence, head});
  module.EndOperator("scores");
  const double saved_bytes = module.cost().saved_bytes;
  AddScores(shape, batch * rows * shape.sequence, module);
  module.cost().core_saved_bytes = module.cost().saved_bytes - saved_bytes;
  module.Product({batch, rows, head, shape.sequence});
  module.Elementwise(2 * q_bytes, 1, 2 * q_bytes, 1);  // contiguous
  module.EndOperator("context");
}

void AddCore(const LayerShape& shape, Module& module) {
  const LayerCost before = module.cost();
  if (shape.framework.flash_attention) {
    AddFusedCore(shape, module);
  } else {
    AddStoredCore(shape, module);
  }
  LayerCost& cost = module.cost();
  cost.core_forward_s = cost.forward_s - before.forward_s;
  cost.core_backward_s = cost.backward_s - before.backward_s;
  cost.core_dispatch_s = cost.forward_dispatch_s - before.forward_dispatch_s;
  module.Keep(before, shape.element_bytes * shape.tokens * shape.query);
  cost.ring_bytes = 2 * shape.element_bytes * shape.tokens * shape.key;
}

// The operators between the matrices of the feed-forward layer.
void AddActivation(const LayerShape& shape, double rows, Module& module) {
  const double e = shape.element_bytes;
  const double inner = rows * shape.ffn;
  if (!shape.model.gated_ffn) {
    module.Elementwise(2 * e * inner, 1, 3 * e * inner, 1);
    module.Save(2 * e * inner);
    module.Temporary(2 * e * inner);
    return;
  }
  const bool fused = shape.framework.fused_operators;
  // silu(gate) * up; two gradients meet at the input.
  module.Elementwise((fused ? 3 : 5) * e * inner,
                     fused ? 1 : 2,
                     (fused ? 5 : 9) * e * inner + 3 * e * rows * shape.hidden,
                     fused ? 2 : 4);
  module.Save((fused && shape.framework.fused_gate ? 3 : 4) * e * inner);
  module.Temporary(3 * e * inner);
}

}  // namespace

LayerShape ShapeOf(const Workload& workload,
                   const Framework& framework,
                   const GpuModel& gpu,
                   const Shard& shard) {
  const Model& model = workload.model;
  const double sequence = workload.sequence_length;
  const double tp = shard.tp;
  const bool sp = shard.sp && shard.tp > 1;
  const double tokens = shard.sequences * sequence / shard.cp;
  const double heads = static_cast<double>(model.attention_heads) / tp;
  return {
      model,
      framework,
      gpu.element_bytes(),
      sequence,
      shard.sequences,
      tp,
      static_cast<double>(shard.cp),
      static_cast<double>(shard.ep),
      sp,
      tokens,
      sp ? tokens / tp : tokens,
      static_cast<double>(model.hidden_size),
      heads,
      heads * model.head_size,
      // Fewer key-value heads than ranks: each rank keeps a copy of one.
      std::max(1.0, static_cast<double>(model.kv_heads) / tp) * model.head_size,
      static_cast<double>(model.ffn_size) / tp};
}

// LayerNorm is one kernel in PyTorch; RMSNorm is written out in Python and
// works in fp32: cast, square, mean, scale, cast, weight.
void AddNorm(const LayerShape& shape, Module& module) {
  const double e = shape.element_bytes;
  const double elements = shape.outer_tokens * shape.hidden;
  if (shape.model.norm_bias || shape.framework.fused_operators) {
    module.Elementwise(2 * e * elements, 1, 4 * e * elements, 2);
    module.Save(e * elements);
  } else {
    module.Elementwise((5 * e + 28) * elements, 7, (6 * e + 52) * elements, 10);
    module.Save((e + 4) * elements);
  }
  module.Parameter(shape.hidden);
  if (shape.model.norm_bias) {
    module.Parameter(shape.hidden);
  }
}

void AddResidual(const LayerShape& shape, Module& module) {
  const double e = shape.element_bytes;
  const double elements = shape.outer_tokens * shape.hidden;
  module.Elementwise(3 * e * elements, 1, 3 * e * elements, 1);
  if (HasDropout(shape.model)) {
    // Fused, sum and dropout are one kernel, which writes the mask.
    const bool fused = shape.framework.fused_operators;
    module.Elementwise((fused ? 1 : 2 * e + 1) * elements,
                       fused ? 0 : 1,
                       (2 * e + 1) * elements,
                       1);
    module.Save(elements);
  }
}

void AddAttention(const LayerShape& shape, Module& module) {
  const double query = shape.query;
  const double key = shape.key;
  const double hidden = shape.hidden;
  const bool bias = shape.model.attention_bias;
  if (shape.framework.fused_operators) {
    module.Linear(shape.tokens,
                  hidden,
                  query + 2 * key,
                  bias,
                  (query + key) / (query + 2 * key));
  } else {
    module.Linear(shape.tokens, hidden, query, bias, 1.0);
    module.Linear(shape.tokens, hidden, key, bias);
    module.Linear(shape.tokens, hidden, key, bias, 1.0);
  }
  module.Save(LinearInputBytes(shape));
  module.EndOperator("qkv");
  AddRotary(shape, module);
  module.EndOperator("rotary");
  AddCore(shape, module);
  module.Linear(shape.tokens, query, hidden, shape.model.output_bias);
  module.Save(shape.element_bytes * shape.tokens * query);
  module.EndOperator("output");
}

void AddFeedForward(const LayerShape& shape, Module& module) {
  const bool gated = shape.model.gated_ffn;
  const bool bias = shape.model.ffn_bias;
  module.Save(LinearInputBytes(shape));
  if (gated && shape.framework.fused_operators) {
    module.Linear(shape.tokens, shape.hidden, 2 * shape.ffn, bias, 0.5);
  } else {
    module.Linear(shape.tokens, shape.hidden, shape.ffn, bias, 1.0);
    if (gated) {
      module.Linear(shape.tokens, shape.hidden, shape.ffn, bias);
    }
  }
  module.EndOperator("ffn-in");
  AddActivation(shape, shape.tokens, module);
  module.EndOperator("activation");
  module.Linear(shape.tokens, shape.ffn, shape.hidden, bias, gated ? 1.0 : 0.0);
  module.EndOperator("ffn-out");
}

void AddExperts(const LayerShape& shape, Module& module) {
  const double e = shape.element_bytes;
  const double hidden = shape.hidden;
  const double scores = shape.tokens * shape.model.experts;
  module.Save(e * shape.outer_tokens * hidden);
  module.Linear(shape.tokens, hidden, shape.model.experts, /*bias=*/false);
  // Softmax and top-k in fp32, positions within each expert, mask.
  module.Elementwise((e + 24) * scores, 6, (e + 12) * scores, 4);
  module.Save(4 * scores);
  // Sorting by expert, and the weighted sum of the results.
  const double copies = shape.tokens * shape.model.experts_per_token;
  module.Elementwise(6 * e * copies * hidden, 4, 7 * e * copies * hidden, 5);
  module.Save(2 * e * copies * hidden);
  module.Temporary(2 * e * copies * hidden);
  const double imbalance = shape.framework.expert_imbalance;
  const double local = shape.model.experts / shape.ep;
  const double rows = copies * imbalance / local;
  module.ExpertLinear(local, rows, hidden, shape.ffn);
  if (shape.model.gated_ffn) {
    module.ExpertLinear(local, rows, hidden, shape.ffn);
  }
  AddActivation(shape, rows * local, module);
  module.ExpertLinear(local, rows, shape.ffn, hidden);
  if (shape.ep > 1) {
    module.cost().all_to_alls = 2;
    module.cost().all_to_all_bytes = e * copies * imbalance * hidden;
  }
  module.EndOperator("experts");
}

}  // namespace trials
