// The operators of feed-forward layers and experts.

#include <string_view>

#include "trials/simulator/layer_operators.h"

namespace trials {
namespace {

// The operators between the matrices of the feed-forward layer.
void AddActivationKernels(const LayerShape& shape, double rows, double ffn,
                          Module& module) {
  const double e = shape.element_bytes;
  const double inner = rows * ffn;
  // Backward holds the gradient of the layer's output. A fused kernel writes
  // the gradients of its inputs when the input of the second product is freed.
  const double out_bytes = shape.framework.kernels.fused_operators
                               ? e * shape.outer_tokens * shape.hidden
                               : 0.0;
  if (!shape.model.gated_ffn) {
    module.Elementwise(2 * e * inner, 1, 3 * e * inner, 1);
    module.Save(e * inner + module.InputBytes(e * inner));
    module.Temporary((shape.framework.kernels.fused_operators ? 1 : 2) * e *
                         inner +
                     out_bytes);
    return;
  }
  if (shape.model.clamped_ffn) {  // both halves, then joined; masks in backward
    module.Elementwise(8 * e * inner, 3, 12 * e * inner, 5);
    module.Save(2 * e * inner);
  }
  const bool fused = shape.framework.kernels.fused_operators;
  // silu(gate) * up; two gradients meet at the input.
  module.Elementwise((fused ? 3 : 5) * e * inner, fused ? 1 : 2,
                     (fused ? 5 : 9) * e * inner + 3 * e * rows * shape.hidden,
                     fused ? 2 : 4);
  module.Save((fused && shape.framework.kernels.fused_gate ? 2 : 3) * e *
                  inner +
              module.InputBytes(e * inner));
  module.Temporary((fused ? 2 : 3) * e * inner + out_bytes);
}

// Recomputed, it keeps its inputs only.
void AddActivation(const LayerShape& shape, double rows, double ffn,
                   Module& module) {
  const LayerCost before = module.cost();
  AddActivationKernels(shape, rows, ffn, module);
  if (shape.framework.recomputation.recompute_activation) {
    const double inputs =
        (shape.model.gated_ffn ? 2 : 1) * shape.element_bytes * rows * ffn;
    module.Repeat(before,
                  module.cost().saved_bytes - before.saved_bytes - inputs);
  }
}

// The products and the activation, of a layer with `ffn` columns on this rank.
void AddProducts(const LayerShape& shape, double ffn, std::string_view in,
                 std::string_view activation, std::string_view out,
                 Module& module) {
  const bool gated = shape.model.gated_ffn;
  const bool bias = shape.model.ffn_bias;
  if (gated && shape.framework.kernels.fused_operators) {
    module.Linear(shape.tokens, shape.hidden, 2 * ffn, bias, 0.5);
  } else {
    module.Linear(shape.tokens, shape.hidden, ffn, bias, 1.0);
    if (gated) {
      module.Linear(shape.tokens, shape.hidden, ffn, bias);
    }
  }
  module.EndOperator(in);
  AddActivation(shape, shape.tokens, ffn, module);
  module.EndOperator(activation);
  const double before_s = module.cost().forward_s;
  module.Linear(shape.tokens, ffn, shape.hidden, bias, gated ? 1.0 : 0.0);
  if (shape.framework.recomputation.recompute_stops_early &&
      shape.model.experts == 0) {
    module.cost().last_forward_s = module.cost().forward_s - before_s;
  }
  module.EndOperator(out);
}

// Experts that every token goes through.
void AddSharedExperts(const LayerShape& shape, Module& module) {
  const Model& model = shape.model;
  if (model.shared_ffn_size == 0) {
    return;
  }
  AddProducts(shape, model.shared_ffn_size / shape.tp, "shared-experts",
              "shared-experts", "shared-experts", module);
  const double bytes = shape.element_bytes * shape.outer_tokens * shape.hidden;
  if (model.shared_expert_gate) {
    module.Use(Weights::kFeedForward, /*targeted=*/false);
    module.Linear(shape.outer_tokens, shape.hidden, 1, /*bias=*/false);
    module.Elementwise(2 * bytes, 2, 4 * bytes, 3);
    module.Save(bytes);
  }
  module.Elementwise(3 * bytes, 1, 0, 0);  // the sum with the chosen experts
  module.EndOperator("shared-experts");
}

// Biases of `experts` with `rows` tokens each. The first product adds its own;
// the second one's is scaled by the router's weight of each token (a product
// and a sum for each expert, whose results are joined). Gradients are sums over
// rows.
// Source: Megatron-LM, megatron/core/transformer/moe/experts.py.
void AddExpertBiases(const LayerShape& shape, double experts, double rows,
                     double ffn, Module& module) {
  const double in_bytes = shape.element_bytes * experts * rows * ffn *
                          (shape.model.gated_ffn ? 2 : 1);
  const double out_bytes = shape.element_bytes * experts * rows * shape.hidden;
  const int kernels = static_cast<int>(experts);
  module.Elementwise(4 * out_bytes, 2 * kernels + 1, in_bytes + 4 * out_bytes,
                     3 * kernels + 1);
}

}  // namespace

void AddFeedForward(const LayerShape& shape, Module& module) {
  module.Use(Weights::kFeedForward);
  module.Save(module.InputBytes(LinearInputBytes(shape)));
  AddProducts(shape, shape.ffn, "ffn-in", "activation", "ffn-out", module);
}

void AddExperts(const LayerShape& shape, Module& module) {
  // Adapters are beside the layers of experts, not beside their router.
  // Source: target modules of PEFT (constants.py) and Megatron-Bridge.
  module.Use(Weights::kFeedForward, /*targeted=*/false);
  const double e = shape.element_bytes;
  const double hidden = shape.hidden;
  // Ranks that hold whole experts divide the tokens that they send.
  const double tokens = shape.tokens * shape.expert_tp / shape.tp;
  const double scores = tokens * shape.model.experts;
  module.Save(e * shape.outer_tokens * hidden);
  module.Linear(tokens, hidden, shape.model.experts, shape.model.router_bias);
  module.Use(Weights::kFeedForward);
  // Softmax and top-k in fp32, positions within each expert, mask.
  module.Elementwise((e + 24) * scores, 6, (e + 12) * scores, 4);
  module.Save(4 * scores);
  // Sorting by expert, and the weighted sum of the results.
  const double copies = tokens * shape.model.experts_per_token;
  module.Elementwise(6 * e * copies * hidden, 4, 7 * e * copies * hidden, 5);
  module.Save(2 * e * copies * hidden);
  module.Temporary(2 * e * copies * hidden);
  // A rank that holds all experts computes the copies of its own tokens.
  const double imbalance =
      shape.ep > 1 ? shape.framework.experts.expert_imbalance : 1.0;
  const double local = shape.model.experts / shape.ep;
  const double rows = copies * imbalance / local;
  const double ffn = shape.model.ffn_size / shape.expert_tp;
  module.ExpertLinear(local, rows, hidden, ffn);
  if (shape.model.gated_ffn) {
    module.ExpertLinear(local, rows, hidden, ffn);
  }
  AddActivation(shape, rows * local, ffn, module);
  module.ExpertLinear(local, rows, ffn, hidden);
  if (shape.model.ffn_bias) {
    AddExpertBiases(shape, local, rows, ffn, module);
  }
  if (shape.ep > 1) {
    module.cost().all_to_alls = 2;
    module.cost().all_to_all_bytes = e * copies * imbalance * hidden;
  }
  module.EndOperator("experts");
  AddSharedExperts(shape, module);
}

}  // namespace trials
