// The operators of attention.

#include <algorithm>
#include <cmath>

#include "trials/simulator/layer_operators.h"

namespace trials {
namespace {

// The share of the scores under the causal mask that is computed, mean over the
// blocks: that of a document, and 2 r - r^2 of it in local attention with
// r = window / document.
double VisibleShare(const LayerShape& shape) {
  const Model& model = shape.model;
  const double packed = shape.training.packed_tokens;
  const double document =
      packed > 0.0 ? std::min(1.0, packed / shape.sequence) : 1.0;
  const double r = std::min(1.0, model.window / (document * shape.sequence));
  return document * (1.0 - model.windowed_share * (1.0 - r) * (1.0 - r));
}

// A norm of each head's query and key.
void AddQkNorm(const LayerShape& shape, Module& module) {
  if (!shape.model.qk_norm) {
    return;
  }
  for (const double width : {shape.query, shape.key}) {
    AddRowNorm(shape, shape.tokens * width, module);
    module.Parameter(shape.model.whole_qk_norm ? width : shape.model.head_size);
  }
}

void AddRotary(const LayerShape& shape, Module& module) {
  if (shape.model.max_positions > 0) {
    return;  // learned positions are part of the embedding
  }
  const double e = shape.element_bytes;
  const double elements =
      shape.model.rotary_share * shape.tokens * (shape.query + shape.key);
  if (shape.framework.kernels.fused_operators) {
    module.Elementwise(2 * e * elements, 1, 2 * e * elements, 1);
  } else {  // negate half, concatenate, two products, sum; q and k separately
    module.Elementwise(10 * e * elements, 10, 10 * e * elements, 10);
  }
}

// Scale, mask, softmax and dropout of n scores. The Llama family computes the
// softmax in fp32 and casts back, as Megatron does where its kernel takes no
// such shape.
void AddScores(const LayerShape& shape, double n, Module& module) {
  const Framework::Kernels& kernels = shape.framework.kernels;
  const double e = shape.element_bytes;
  const bool dropout = HasDropout(shape.model);
  if (kernels.fused_operators) {
    const double batch = shape.sequences * shape.heads;
    if (std::fmod(batch, kernels.fused_softmax_multiple) == 0.0) {
      module.Elementwise(kernels.score_forward_bytes * n, 1,
                         kernels.score_backward_bytes * n, 1);
      module.Save(e * n);
      module.Temporary(2 * e * n);
    } else {  // to fp32, scale, mask, softmax, back
      module.Elementwise((2 * e + 33) * n, 5, (2 * e + 37) * n, 5);
      module.Save((e + 4) * n);
      module.Temporary((e + 8) * n);
    }
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
  const double part = shape.sequence / shape.cp;
  const double kv = shape.key + shape.value;
  const double inner = shape.query + shape.result;
  module.Flash({shape.sequences * shape.heads, part, part * VisibleShare(shape),
                inner / (2.0 * shape.heads), shape.model.causal,
                e * shape.tokens * (inner / shape.cp + kv),
                shape.framework.kernels.cudnn_attention},
               static_cast<int>(shape.cp));
  const Framework::Kernels& kernels = shape.framework.kernels;
  if (shape.cp > 1 && kernels.merge_forward_bytes > 0.0) {
    const double merged = shape.cp * shape.tokens * shape.result;
    const int rounds = static_cast<int>(shape.cp);
    module.Elementwise(kernels.merge_forward_bytes * merged, rounds,
                       kernels.merge_backward_bytes * merged, rounds);
  }
  // The result is copied for the next product unless the kernel writes it in
  // that order.
  module.Save(e * shape.tokens *
              (shape.query + kv +
               (shape.framework.kernels.fused_operators ? 0 : shape.result)));
  module.EndOperator("core");
}

// Returns the bytes of scores that are kept.
double AddStoredCore(const LayerShape& shape, Module& module) {
  const double q_bytes = shape.element_bytes * shape.tokens * shape.query;
  const double v_bytes = shape.element_bytes * shape.tokens * shape.result;
  if (shape.key < shape.query) {  // copies key-value heads for all query heads
    module.Elementwise(3 * q_bytes, 2, 3 * q_bytes, 2);
  }
  module.Save(2 * q_bytes + v_bytes);  // q; k and v as the products need them
  const double batch = shape.sequences * shape.heads;
  const double head = shape.model.head_size;
  const double rows = shape.sequence / shape.cp;
  module.Product({batch, rows, shape.sequence, head});
  module.EndOperator("scores");
  const double before = module.cost().saved_bytes;
  AddScores(shape, batch * rows * shape.sequence, module);
  const double scores_bytes = module.cost().saved_bytes - before;
  module.Product({batch, rows, ValueSize(shape.model), shape.sequence});
  module.Elementwise(2 * v_bytes, 1, 2 * v_bytes, 1);  // contiguous
  module.EndOperator("context");
  return scores_bytes;
}

void AddCore(const LayerShape& shape, Module& module) {
  const LayerCost before = module.cost();
  double scores_bytes = 0.0;
  if (shape.framework.kernels.flash_attention) {
    AddFusedCore(shape, module);
  } else {
    scores_bytes = AddStoredCore(shape, module);
  }
  if (shape.framework.recomputation.recompute_core) {
    module.Repeat(before, scores_bytes);
  }
  module.Keep(before, shape.element_bytes * shape.tokens * shape.result);
  LayerCost& cost = module.cost();
  cost.core_forward_s = cost.forward_s - before.forward_s;
  cost.core_backward_s = cost.backward_s - before.backward_s;
  cost.ring_bytes =
      shape.element_bytes * shape.tokens *
      (shape.framework.kernels.repeat_kv ? shape.query + shape.result
                                         : shape.key + shape.value);
}

// Query, key and value from the hidden states.
void AddProjections(const LayerShape& shape, Module& module) {
  const double query = (shape.model.attention_gate ? 2 : 1) * shape.query;
  const double key = shape.key;
  const double hidden = shape.hidden;
  const bool bias = shape.model.attention_bias;
  if (shape.framework.kernels.fused_operators) {
    module.Linear(shape.tokens, hidden, query + 2 * key, bias,
                  (query + key) / (query + 2 * key));
  } else {
    module.Linear(shape.tokens, hidden, query, bias, 1.0);
    module.Linear(shape.tokens, hidden, key, bias);
    module.Linear(shape.tokens, hidden, key, bias, 1.0);
  }
  module.Save(module.InputBytes(LinearInputBytes(shape)));
  module.EndOperator("qkv");
  AddQkNorm(shape, module);
  if (shape.model.sinks) {
    module.Parameter(shape.heads);
  }
}

// A vector of `rank` numbers per token, its norm, and the product with a
// weight [rank, out]. Every tensor-parallel rank computes the vector, of its
// own tokens under sequence parallelism.
void AddLowRank(const LayerShape& shape, double rank, double rotary, double out,
                Module& module) {
  const double e = shape.element_bytes;
  const double elements = shape.outer_tokens * rank;
  module.Linear(shape.outer_tokens, shape.hidden, rank + rotary, false);
  module.Elementwise(2 * e * elements, 1, 4 * e * elements, 2);
  module.Save(2 * e * elements);  // input and output of the norm
  module.Parameter(rank);
  module.Linear(shape.tokens, rank, out, false);
}

// Projections of multi-head latent attention, where a copy joins both parts of
// queries and keys.
void AddLatentProjections(const LayerShape& shape, Module& module) {
  const Model& model = shape.model;
  const double e = shape.element_bytes;
  const LayerCost before = module.cost();
  if (model.query_rank > 0) {
    AddLowRank(shape, model.query_rank, 0, shape.query, module);
  } else {
    module.Linear(shape.tokens, shape.hidden, shape.query, false);
  }
  const double plain = shape.key - shape.heads * model.rope_head_size;
  AddLowRank(shape, model.kv_rank, model.rope_head_size, plain + shape.value,
             module);
  const double joined =
      e * shape.tokens * (shape.query + shape.key + shape.value);
  module.Elementwise(2 * joined, 3, 2 * joined, 3);
  if (shape.framework.recomputation.recompute_latent) {
    module.Repeat(before, joined);  // the core keeps them otherwise
  }
  module.Save(module.InputBytes(LinearInputBytes(shape)));
  module.EndOperator("qkv");
}

}  // namespace

void AddAttention(const LayerShape& shape, Module& module) {
  module.Use(Weights::kAttention);
  if (shape.model.kv_rank > 0) {
    AddLatentProjections(shape, module);
  } else {
    AddProjections(shape, module);
  }
  AddRotary(shape, module);
  module.EndOperator("rotary");
  AddCore(shape, module);
  if (shape.model.attention_gate) {
    const double bytes = shape.element_bytes * shape.tokens * shape.result;
    module.Elementwise(3 * bytes, 2, 5 * bytes, 2);
    module.Save(2 * bytes);
  }
  module.Linear(shape.tokens, shape.result, shape.hidden,
                shape.model.output_bias);
  const double result_bytes = shape.element_bytes * shape.tokens * shape.result;
  module.Save(result_bytes);
  if (module.fp8()) {  // the core's backward needs it in half precision
    module.Save(module.InputBytes(result_bytes));
  }
  module.EndOperator("output");
}

void AddStateSpace(const LayerShape& shape, Module& module) {
  module.Use(Weights::kAttention);
  constexpr double kChunk = 256.0;
  constexpr double kStateBytes = 4.0;  // fp32
  const Model& model = shape.model;
  const double e = shape.element_bytes;
  const double inner = model.state_inner / shape.tp;
  const double channels = model.state_channels / shape.tp;
  module.Linear(shape.tokens, shape.hidden, model.state_columns / shape.tp,
                /*bias=*/false, 1.0);
  module.Save(module.InputBytes(LinearInputBytes(shape)));
  module.EndOperator("state-in");
  if (channels > 0.0) {
    const double bytes = e * shape.tokens * channels;
    module.Elementwise(2 * bytes, 1, 4 * bytes, 2);
    module.Save(2 * bytes);
    module.Parameter(channels * model.state_kernel);
  }
  module.Parameter(model.state_parameters / shape.tp);
  module.EndOperator("convolution");
  if (model.state_size > 0) {
    const double rows = std::min(kChunk, shape.sequence / shape.cp);
    const double chunks = shape.tokens / rows;
    const double heads = model.state_heads / shape.tp;
    const double width = inner / heads;
    const double state = model.state_size;
    module.Product({chunks * heads, rows, rows, state});
    module.Product({chunks * heads, rows, width, rows});
    module.Product({chunks * heads, state, width, rows});
    module.Product({chunks * heads, rows, width, state});
    const double states = kStateBytes * chunks * heads * state * width;
    module.Elementwise(2 * states, 1, 2 * states, 1);  // from chunk to chunk
    module.Save(states + e * shape.tokens * inner);
    module.EndOperator("scan");
  }
  const double result = e * shape.tokens * inner;
  AddRowNorm(shape, shape.tokens * inner, module);
  module.Elementwise(3 * result, 1, 5 * result, 2);
  module.Save(2 * result);
  module.EndOperator("gate");
  module.Linear(shape.tokens, inner, shape.hidden, /*bias=*/false);
  module.EndOperator("state-out");
}

}  // namespace trials
