#include "trials/simulator/layer_cost.h"

#include <algorithm>
#include <numeric>

namespace trials {
namespace {

// Collects the operators of one module.
class Module {
 public:
  Module(const GpuModel& gpu, const Framework& framework)
      : gpu_(gpu), framework_(framework) {}

  // A linear layer: rows [rows, in] times weight [in, out].
  void Linear(double rows, double in, double out, bool bias) {
    const double e = gpu_.element_bytes();
    cost_.forward_s += gpu_.GemmTime({1.0, rows, out, in});
    cost_.backward_s += gpu_.GemmTime({1.0, rows, in, out}) +
                        gpu_.GemmTime({1.0, in, out, rows});
    Dispatch(1, 2);
    Parameter(in * out);
    if (bias) {  // its gradient is a sum over rows
      cost_.backward_s += gpu_.MemoryTime(rows * out * e);
      Dispatch(0, 1);
      Parameter(out);
    }
  }

  // A product of two activations: both inputs get a gradient.
  void Product(const Gemm& g) {
    cost_.forward_s += gpu_.GemmTime(g);
    cost_.backward_s += gpu_.GemmTime({g.batch, g.m, g.k, g.n}) +
                        gpu_.GemmTime({g.batch, g.k, g.n, g.m});
    Dispatch(1, 2);
  }

  void Flash(double forward_flop, double forward_bytes) {
    cost_.forward_s += gpu_.FlashTime(forward_flop, forward_bytes);
    // Backward computes the scores again: five products instead of two.
    cost_.backward_s += gpu_.FlashTime(
        2.5 * forward_flop, 2.5 * forward_bytes, /*backward=*/true);
    Dispatch(1, 2);
  }

  // Kernels that only move bytes.
  void Elementwise(double forward_bytes,
                   int forward_kernels,
                   double backward_bytes,
                   int backward_kernels) {
    cost_.forward_s += gpu_.MemoryTime(forward_bytes, forward_kernels);
    cost_.backward_s += gpu_.MemoryTime(backward_bytes, backward_kernels);
    Dispatch(forward_kernels, backward_kernels);
  }

  void Save(double bytes) { cost_.saved_bytes += bytes; }
  void Working(double bytes) {
    cost_.working_bytes = std::max(cost_.working_bytes, bytes);
  }

  void Parameter(double elements) {
    cost_.parameters.push_back(elements);
    // grad += new: two reads and a write, in every microbatch but the first.
    cost_.accumulate_s +=
        gpu_.MemoryTime(3.0 * gpu_.element_bytes() * elements);
  }

  void Messages(int forward, int backward, double bytes) {
    cost_.forward_messages = forward;
    cost_.backward_messages = backward;
    cost_.message_bytes = bytes;
  }

  [[nodiscard]] LayerCost& cost() { return cost_; }

 private:
  void Dispatch(int forward_kernels, int backward_kernels) {
    cost_.forward_dispatch_s += forward_kernels * framework_.dispatch_s;
    cost_.backward_dispatch_s +=
        backward_kernels * framework_.dispatch_backward_s;
  }

  const GpuModel& gpu_;
  const Framework& framework_;
  LayerCost cost_;
};

// Sizes of one shard, and the operators built from them.
struct Builder {
  Builder(const Workload& workload,
          const Framework& framework_in,
          const GpuModel& gpu_in,
          const Shard& shard)
      : model(workload.model), framework(framework_in), gpu(gpu_in) {
    e = gpu.element_bytes();
    sequence = workload.sequence_length;
    sequences = shard.sequences;
    tokens = sequences * sequence;
    tp = shard.tp;
    hidden = model.hidden_size;
    // With sequence parallelism a rank keeps 1/tp of the tokens where tensor
    // parallelism keeps all of them.
    plain_tokens = shard.sp ? tokens / tp : tokens;
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
      module.Elementwise((2 * e + 1) * elements, 1, (2 * e + 1) * elements, 1);
      module.Save(elements);
    }
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
    const double q_bytes = e * tokens * query;
    if (framework.flash_attention) {
      const double share = model.causal ? 0.5 : 1.0;
      module.Flash(share * 4.0 * tokens * sequence * query,
                   2 * q_bytes + 2 * e * tokens * key);
      module.Save(2 * q_bytes + 2 * e * tokens * key);
      return;
    }
    if (key < query) {  // key-value heads are copied to every query head
      module.Elementwise(3 * q_bytes, 2, 3 * q_bytes, 2);
    }
    module.Save(3 * q_bytes);  // q, and k and v as the products see them
    const double batch = sequences * heads;
    const double head = model.head_size;
    module.Product({batch, sequence, sequence, head});
    Scores(module, batch * sequence * sequence);
    module.Product({batch, sequence, head, sequence});
    module.Elementwise(2 * q_bytes, 1, 2 * q_bytes, 1);  // contiguous
  }

  // Scale, mask, softmax and dropout of n scores. The Llama family takes the
  // softmax in fp32 and casts back.
  void Scores(Module& module, double n) const {
    if (framework.fused_operators) {
      module.Elementwise(2 * e * n, 1, 3 * e * n, 1);
      module.Save(e * n);
      module.Working(2 * e * n);
      if (HasDropout()) {
        module.Elementwise((2 * e + 1) * n, 1, (2 * e + 1) * n, 1);
        module.Save((e + 1) * n);
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
  }

  void FeedForward(Module& module) const {
    const double inner = tokens * ffn;
    module.Linear(tokens, hidden, ffn, model.ffn_bias);
    module.Save(e * tokens * hidden);
    if (model.gated_ffn) {
      module.Linear(tokens, hidden, ffn, model.ffn_bias);
      const bool fused = framework.fused_operators;
      // silu(gate) * up; two gradients meet at the input.
      module.Elementwise((fused ? 3 : 5) * e * inner,
                         fused ? 1 : 2,
                         (fused ? 5 : 9) * e * inner + 3 * e * tokens * hidden,
                         fused ? 2 : 4);
      module.Save((fused ? 3 : 4) * e * inner);
      module.Working(3 * e * inner);
    } else {
      module.Elementwise(2 * e * inner, 1, 3 * e * inner, 1);
      module.Save(2 * e * inner);
      module.Working(2 * e * inner);
    }
    module.Linear(tokens, ffn, hidden, model.ffn_bias);
  }

  [[nodiscard]] bool HasDropout() const { return model.max_positions > 0; }

  [[nodiscard]] LayerCost Block() const {
    Module module(gpu, framework);
    Norm(module);
    module.Linear(tokens, hidden, query, model.attention_bias);
    module.Linear(tokens, hidden, key, model.attention_bias);
    module.Linear(tokens, hidden, key, model.attention_bias);
    module.Save(e * tokens * hidden);
    Rotary(module);
    Attention(module);
    module.Linear(tokens, query, hidden, model.output_bias);
    module.Save(e * tokens * query);
    Residual(module);
    Norm(module);
    FeedForward(module);
    Residual(module);
    if (tp > 1) {
      module.Messages(2, 2, e * tokens * hidden);
    }
    return module.cost();
  }

  [[nodiscard]] LayerCost Embedding() const {
    Module module(gpu, framework);
    const double elements = tokens * hidden;
    const double table = model.vocab_size * hidden / tp;
    // Look-up; the gradient is a zeroed table with rows added to it.
    module.Elementwise(2 * e * elements, 1, e * table + 3 * e * elements, 3);
    module.Parameter(table);
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
    if (tp > 1) {
      module.Messages(1, 0, e * elements);
    }
    return module.cost();
  }

  [[nodiscard]] LayerCost Head() const {
    Module module(gpu, framework);
    if (model.final_norm) {
      Norm(module);
    }
    if (model.pooler) {  // classification of the first token
      module.Linear(sequences, hidden, hidden, true);
      module.Elementwise(
          4 * e * sequences * hidden, 3, 4 * e * sequences * hidden, 4);
      return module.cost();
    }
    const double vocabulary = static_cast<double>(model.vocab_size) / tp;
    const double logits = tokens * vocabulary;
    module.Linear(tokens, hidden, vocabulary, false);
    if (model.tied_embeddings) {
      module.cost().parameters.pop_back();  // the embedding's table
    }
    module.Save(e * tokens * hidden);
    if (framework.fused_operators) {
      module.Elementwise((e + 12) * logits, 3, (8 + e) * logits, 2);
    } else {  // fp32 copy, shifted copy, log-softmax, and all of it back
      module.Elementwise((e + 20) * logits, 5, (e + 32) * logits, 6);
    }
    module.cost().logits_bytes = framework.loss_bytes_per_logit * logits;
    if (tp > 1) {  // the gradient of the hidden states; loss sums are small
      module.Messages(0, 1, e * tokens * hidden);
    }
    return module.cost();
  }

  const Model& model;
  const Framework& framework;
  const GpuModel& gpu;
  double e = 2.0;
  double sequence = 0.0;
  double sequences = 0.0;
  double tokens = 0.0;
  double plain_tokens = 0.0;
  double tp = 1.0;
  double hidden = 0.0;
  double heads = 0.0;
  double query = 0.0;
  double key = 0.0;
  double ffn = 0.0;
};

}  // namespace

double LayerCost::ParameterCount() const {
  return std::accumulate(parameters.begin(), parameters.end(), 0.0);
}

LayerCosts ComputeLayerCosts(const Workload& workload,
                             const Framework& framework,
                             const GpuModel& gpu,
                             const Shard& shard) {
  const Builder builder(workload, framework, gpu, shard);
  return {builder.Block(),
          builder.Embedding(),
          builder.Head(),
          builder.e * builder.tokens * builder.hidden};
}

}  // namespace trials
