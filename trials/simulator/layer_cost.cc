#include "trials/simulator/layer_cost.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "trials/simulator/module.h"

namespace trials {
namespace {

// Sizes of one shard, and the operators built from them.
struct Builder {
  Builder(const Workload& workload,
          const Framework& framework_in,
          const GpuModel& gpu_in,
          const Shard& shard,
          std::vector<OperatorCost>* operators_in = nullptr)
      : model(workload.model),
        framework(framework_in),
        gpu(gpu_in),
        operators(operators_in) {
    e = gpu.element_bytes();
    sequence = workload.sequence_length;
    sequences = shard.sequences;
    cp = shard.cp;
    ep = shard.ep;
    sp = shard.sp && shard.tp > 1;
    tokens = sequences * sequence / cp;
    tp = shard.tp;
    hidden = model.hidden_size;
    // With sequence parallelism a rank keeps 1/tp of the tokens where tensor
    // parallelism keeps all of them.
    plain_tokens = sp ? tokens / tp : tokens;
    heads = static_cast<double>(model.attention_heads) / tp;
    query = heads * model.head_size;
    // Fewer key-value heads than ranks: each rank keeps a copy of one.
    key = std::max(1.0, static_cast<double>(model.kv_heads) / tp) *
          model.head_size;
    ffn = static_cast<double>(model.ffn_size) / tp;
  }

  // LayerNorm is one kernel in PyTorch; RMSNorm is written out in Python and
  // works in fp32: cast, square, mean, scale, cast, weight.
  void Norm(Module& module) const {
    const double elements = plain_tokens * hidden;
    if (model.norm_bias || framework.fused_operators) {
      module.Elementwise(2 * e * elements, 1, 4 * e * elements, 2);
      module.Save(e * elements);
    } else {
      module.Elementwise(
          (5 * e + 28) * elements, 7, (6 * e + 52) * elements, 10);
      module.Save((e + 4) * elements);
    }
    module.Parameter(hidden);
    if (model.norm_bias) {
      module.Parameter(hidden);
    }
  }

  // y = x + f(x), behind a dropout in BERT's family.
  void Residual(Module& module) const {
    const double elements = plain_tokens * hidden;
    module.Elementwise(3 * e * elements, 1, 3 * e * elements, 1);
    if (HasDropout()) {
      // Fused, the sum and the dropout are one kernel, which writes the mask.
      const bool fused = framework.fused_operators;
      module.Elementwise((fused ? 1 : 2 * e + 1) * elements,
                         fused ? 0 : 1,
                         (2 * e + 1) * elements,
                         1);
      module.Save(elements);
    }
  }

  // What a linear layer keeps of its input, which sequence parallelism has
  // gathered from the ranks.
  [[nodiscard]] double LinearInputBytes() const {
    return e * hidden * (framework.gather_again ? plain_tokens : tokens);
  }

  void Rotary(Module& module) const {
    if (model.max_positions > 0) {
      return;  // learned positions are part of the embedding
    }
    const double elements = tokens * (query + key);
    if (framework.fused_operators) {
      module.Elementwise(2 * e * elements, 1, 2 * e * elements, 1);
    } else {  // negate half, concatenate, two products, sum; q and k apart
      module.Elementwise(10 * e * elements, 10, 10 * e * elements, 10);
    }
  }

  void Attention(Module& module) const {
    const LayerCost before = module.cost();
    AttentionCore(module);
    LayerCost& cost = module.cost();
    cost.core_forward_s = cost.forward_s - before.forward_s;
    cost.core_backward_s = cost.backward_s - before.backward_s;
    cost.core_dispatch_s = cost.forward_dispatch_s - before.forward_dispatch_s;
    cost.ring_bytes = 2 * e * tokens * key;
  }

  void AttentionCore(Module& module) const {
    const double q_bytes = e * tokens * query;
    if (framework.flash_attention) {
      const double share = model.causal ? 0.5 : 1.0;
      module.Flash(share * 4.0 * tokens * sequence * query,
                   2 * q_bytes + 2 * e * tokens * key * cp,
                   static_cast<int>(cp));
      // The result is copied for the next product unless the kernel writes it
      // in that order.
      module.Save((framework.fused_operators ? 1 : 2) * q_bytes +
                  2 * e * tokens * key);
      module.End("core");
      return;
    }
    if (key < query) {  // key-value heads are copied to every query head
      module.Elementwise(3 * q_bytes, 2, 3 * q_bytes, 2);
    }
    module.Save(3 * q_bytes);  // q, and k and v as the products see them
    const double batch = sequences * heads;
    const double head = model.head_size;
    const double rows = sequence / cp;
    module.Product({batch, rows, sequence, head});
    module.End("scores");
    const double saved_bytes = module.cost().saved_bytes;
    Scores(module, batch * rows * sequence);
    module.cost().core_saved_bytes = module.cost().saved_bytes - saved_bytes;
    module.Product({batch, rows, head, sequence});
    module.Elementwise(2 * q_bytes, 1, 2 * q_bytes, 1);  // contiguous
    module.End("context");
  }

  // Scale, mask, softmax and dropout of n scores. The Llama family takes the
  // softmax in fp32 and casts back.
  void Scores(Module& module, double n) const {
    if (framework.fused_operators) {
      module.Elementwise(framework.score_forward_bytes * n,
                         1,
                         framework.score_backward_bytes * n,
                         1);
      module.Save(e * n);
      module.Working(2 * e * n);
      module.End("softmax");
      if (HasDropout()) {
        module.Elementwise((2 * e + 1) * n, 1, (2 * e + 1) * n, 1);
        module.Save((e + 1) * n);
        module.End("dropout");
      }
      return;
    }
    if (HasDropout()) {
      module.Elementwise((8 * e + 1) * n, 4, (7 * e + 1) * n, 3);
      module.Save((2 * e + 1) * n);
      module.Working(3 * e * n);
    } else {
      module.Elementwise((6 * e + 8) * n, 4, (4 * e + 20) * n, 4);
      module.Save((e + 4) * n);
      module.Working((e + 8) * n);
    }
    module.End("softmax");
  }

  void FeedForward(Module& module) const {
    module.Save(LinearInputBytes());
    if (model.gated_ffn && framework.fused_operators) {
      module.Linear(tokens, hidden, 2 * ffn, model.ffn_bias);
    } else {
      module.Linear(tokens, hidden, ffn, model.ffn_bias);
      if (model.gated_ffn) {
        module.Linear(tokens, hidden, ffn, model.ffn_bias);
      }
    }
    module.End("ffn-in");
    Activation(module, tokens);
    module.End("activation");
    module.Linear(tokens, ffn, hidden, model.ffn_bias);
    module.End("ffn-out");
  }

  // A router chooses experts for every token; the chosen copies travel to
  // their experts' ranks and back. The busiest rank sets the pace.
  void Experts(Module& module) const {
    const double choices = model.experts_per_token;
    const double scores = tokens * model.experts;
    module.Save(e * plain_tokens * hidden);
    module.Linear(tokens, hidden, model.experts, /*bias=*/false);
    // Softmax and top-k in fp32, positions within each expert, mask.
    module.Elementwise((e + 24) * scores, 6, (e + 12) * scores, 4);
    module.Save(4 * scores);
    // Sorted by expert, and the weighted sum of what comes back.
    const double copies = tokens * choices;
    module.Elementwise(6 * e * copies * hidden, 4, 7 * e * copies * hidden, 5);
    module.Save(2 * e * copies * hidden);
    module.Working(2 * e * copies * hidden);
    const double local = model.experts / ep;
    const double rows = copies * framework.expert_imbalance / local;
    module.ExpertLinear(local, rows, hidden, ffn);
    if (model.gated_ffn) {
      module.ExpertLinear(local, rows, hidden, ffn);
    }
    Activation(module, rows * local);
    module.ExpertLinear(local, rows, ffn, hidden);
    if (ep > 1) {
      module.cost().all_to_alls = 2;
      module.cost().all_to_all_bytes =
          e * copies * framework.expert_imbalance * hidden;
    }
  }

  // What stands between the feed-forward layer's matrices.
  void Activation(Module& module, double rows) const {
    const double inner = rows * ffn;
    if (model.gated_ffn) {
      const bool fused = framework.fused_operators;
      // silu(gate) * up; two gradients meet at the input.
      module.Elementwise((fused ? 3 : 5) * e * inner,
                         fused ? 1 : 2,
                         (fused ? 5 : 9) * e * inner + 3 * e * rows * hidden,
                         fused ? 2 : 4);
      module.Save((fused && framework.fused_gate ? 3 : 4) * e * inner);
      module.Working(3 * e * inner);
    } else {
      module.Elementwise(2 * e * inner, 1, 3 * e * inner, 1);
      module.Save(2 * e * inner);
      module.Working(2 * e * inner);
    }
  }

  // BERT and GPT train with dropout, ViT by default does not.
  [[nodiscard]] bool HasDropout() const {
    return model.dropout && model.max_positions > 0 && model.patch_size == 0;
  }

  [[nodiscard]] LayerCost Block() const {
    Module module(gpu, framework, operators);
    Norm(module);
    module.End("norm");
    if (framework.fused_operators) {
      module.Linear(tokens, hidden, query + 2 * key, model.attention_bias);
    } else {
      module.Linear(tokens, hidden, query, model.attention_bias);
      module.Linear(tokens, hidden, key, model.attention_bias);
      module.Linear(tokens, hidden, key, model.attention_bias);
    }
    module.Save(LinearInputBytes());
    module.End("qkv");
    Rotary(module);
    module.End("rotary");
    Attention(module);
    module.Linear(tokens, query, hidden, model.output_bias);
    module.Save(e * tokens * query);
    module.End("output");
    Residual(module);
    module.End("residual");
    Norm(module);
    module.End("norm");
    if (model.experts > 0) {
      Experts(module);
      module.End("experts");
    } else {
      FeedForward(module);
    }
    Residual(module);
    module.End("residual");
    if (sp) {
      module.Halves(4, 4, framework.gather_again ? 2 : 0, e * tokens * hidden);
    } else if (tp > 1) {
      module.Messages(2, 2, e * tokens * hidden);
    }
    module.Issue(framework.block_dispatch_s,
                 framework.block_backward_dispatch_s);
    return module.cost();
  }

  [[nodiscard]] LayerCost Embedding() const {
    Module module(gpu, framework, operators);
    const double elements = tokens * hidden;
    if (model.patch_size > 0) {
      module.Linear(tokens, model.patch_size, hidden, /*bias=*/true);
      module.Save(e * tokens * model.patch_size);
      module.Parameter(hidden);  // class token
    } else {
      const double table = model.vocab_size * hidden / tp;
      // Look-up; the gradient is a zeroed table with rows added to it.
      module.Elementwise(2 * e * elements, 1, e * table + 3 * e * elements, 3);
      module.Parameter(table);
    }
    if (model.max_positions > 0) {
      module.Elementwise(8 * e * elements, 4, 4 * e * elements, 3);
      module.Parameter(model.max_positions * hidden);
    }
    if (model.token_types > 0) {
      module.Parameter(model.token_types * hidden);
    }
    if (model.embedding_norm) {
      Norm(module);
    }
    if (sp) {  // sums of the table's parts; backward gathers the gradient
      module.Halves(1, 1, 0, e * elements);
    } else if (tp > 1 && model.patch_size == 0) {
      module.Messages(1, 0, e * elements);
    }
    module.End("embedding");
    return module.cost();
  }

  [[nodiscard]] LayerCost Head() const {
    Module module(gpu, framework, operators);
    if (model.final_norm) {
      Norm(module);
      module.End("final-norm");
    }
    if (model.pooler || model.classes > 0) {  // of the first token
      if (model.pooler) {
        module.Linear(sequences, hidden, hidden, true);
      }
      if (model.classes > 0) {
        module.Linear(sequences, hidden, model.classes, true);
      }
      module.Elementwise(
          4 * e * sequences * hidden, 3, 4 * e * sequences * hidden, 4);
      module.End("head");
      return module.cost();
    }
    const double vocabulary =
        std::floor(static_cast<double>(model.vocab_size) / tp);
    const double logits = tokens * vocabulary;
    module.Linear(tokens, hidden, vocabulary, false);
    if (model.tied_embeddings) {
      module.cost().parameters.pop_back();  // the embedding's table
    }
    module.Save(e * plain_tokens * hidden);
    const bool fused = framework.fused_operators;
    module.Elementwise(framework.loss_forward_bytes * logits,
                       fused ? 3 : 5,
                       framework.loss_backward_bytes * logits,
                       fused ? 2 : 6);
    module.End("head");
    module.cost().logits_bytes = framework.loss_bytes_per_logit * logits;
    if (sp) {
      module.Halves(1, 1, framework.gather_again ? 1 : 0, e * tokens * hidden);
    } else if (tp > 1) {  // the gradient of the hidden states; sums are small
      module.Messages(0, 1, e * tokens * hidden);
    }
    return module.cost();
  }

  const Model& model;
  const Framework& framework;
  const GpuModel& gpu;
  std::vector<OperatorCost>* operators;
  double e = 2.0;
  double sequence = 0.0;
  double sequences = 0.0;
  double tokens = 0.0;
  double plain_tokens = 0.0;
  double tp = 1.0;
  double cp = 1.0;
  double ep = 1.0;
  bool sp = false;
  double hidden = 0.0;
  double heads = 0.0;
  double query = 0.0;
  double key = 0.0;
  double ffn = 0.0;
};

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
  const Builder builder(workload, framework, gpu, shard);
  return {builder.Block(),
          builder.Embedding(),
          builder.Head(),
          builder.e * builder.plain_tokens * builder.hidden};
}

std::vector<OperatorCost> ComputeOperatorCosts(const Workload& workload,
                                               const Framework& framework,
                                               const GpuModel& gpu,
                                               const Shard& shard) {
  std::vector<OperatorCost> operators;
  const Builder builder(workload, framework, gpu, shard, &operators);
  (void)builder.Block();
  (void)builder.Embedding();
  (void)builder.Head();
  return operators;
}

}  // namespace trials
