// Time and memory of a transformer block, of the embedding and of the head.

#pragma once

#include <compare>
#include <string_view>
#include <vector>

#include "trials/simulator/framework.h"
#include "trials/simulator/gpu_model.h"
#include "trials/training.h"
#include "trials/workload.h"

namespace trials {

// The part of the model and of a microbatch that one GPU computes.
struct Shard {
  double sequences = 1.0;  // of a microbatch
  int tp = 1;
  bool sp = false;  // norms and residuals are split over the tp ranks too
  int cp = 1;       // ranks that share the tokens of a sequence
  int ep = 1;       // ranks that share the experts
  // Experts are not split over the tp ranks (Framework::experts), each of which
  // sends its own part of the tokens to them.
  bool whole_experts = false;

  friend auto operator<=>(const Shard&, const Shard&) = default;
};

// Numbers of tensor-parallel collectives. Sequence parallelism replaces an
// all-reduce by an all-gather and a reduce-scatter, which take equally long.
// Its backward pass repeats some all-gathers behind a matrix product.
struct Collectives {
  double all_reduces = 0.0;
  double gathers_and_scatters = 0.0;
  double hidden_gathers = 0.0;

  [[nodiscard]] double Count() const {
    return all_reduces + gathers_and_scatters + hidden_gathers;
  }
  friend Collectives operator+(const Collectives& a, const Collectives& b) {
    return {a.all_reduces + b.all_reduces,
            a.gathers_and_scatters + b.gathers_and_scatters,
            a.hidden_gathers + b.hidden_gathers};
  }
  friend Collectives operator-(const Collectives& a, const Collectives& b) {
    return a + -1.0 * b;
  }
  friend Collectives operator*(double times, const Collectives& c) {
    return {times * c.all_reduces, times * c.gathers_and_scatters,
            times * c.hidden_gathers};
  }
};

// One module (block, embedding or head) for one microbatch on one GPU.
struct LayerCost {
  double forward_s = 0.0;  // GPU time
  double backward_s = 0.0;
  double weights_s = 0.0;  // products of backward that give weights' gradients
  double accumulate_s = 0.0;  // adding to the gradients of earlier microbatches
  double forward_dispatch_s = 0.0;  // CPU time to issue the kernels
  double backward_dispatch_s = 0.0;
  double saved_bytes = 0.0;    // kept from forward for backward
  double working_bytes = 0.0;  // largest temporary
  double logits_bytes = 0.0;   // peak around the loss (head only)
  // One gradient of each shape of a weight,
  // Framework::gradients.placeholder_gradients.
  double placeholder_bytes = 0.0;
  // The core of attention (scores to weighted sum), included in the fields
  // above.
  double core_forward_s = 0.0;
  double core_backward_s = 0.0;
  // What selective recomputation by operator keeps (Framework::
  // selective_by_operator), included in forward_s.
  double kept_forward_s = 0.0;
  double kept_dispatch_s = 0.0;
  double kept_bytes = 0.0;
  // What selective recomputation repeats, also included: its time, and bytes
  // that are then not kept (Framework::recompute_*).
  double selective_forward_s = 0.0;
  double selective_dispatch_s = 0.0;
  double selective_bytes = 0.0;
  Collectives selective_collectives;
  // What full recomputation omits, also included (Framework::
  // recompute_stops_early).
  double last_forward_s = 0.0;
  Collectives last_collectives;
  // Elements of each trained tensor on this GPU, in forward order. Experts are
  // separate, because fewer ranks hold copies of them.
  std::vector<double> parameters;
  std::vector<double> expert_parameters;
  // Elements without gradients (Training): all, and those of experts.
  double frozen = 0.0;
  double frozen_experts = 0.0;
  double frozen_ends =
      0.0;  // of embeddings, heads and norms, never in few bits
  // Tensor-parallel collectives of `collective_bytes` each.
  Collectives forward_collectives;
  Collectives backward_collectives;
  double collective_bytes = 0.0;
  // Keys and values that a context-parallel rank passes on, cp - 1 times in
  // forward; in backward their gradients travel too, in fp32 if blocks are
  // merged in fp32 (Framework::kernels.merge_backward_bytes).
  double ring_bytes = 0.0;
  // Expert-parallel all-to-alls of `all_to_all_bytes` each, in each direction.
  int all_to_alls = 0;
  double all_to_all_bytes = 0.0;

  // Including experts and what is frozen.
  [[nodiscard]] double ParameterCount() const;
  // The share of it that is trained.
  [[nodiscard]] double TrainedShare() const;
  [[nodiscard]] double ExpertParameterCount() const;
};

// The three kinds of module of a model. Costs are sums over operators: a
// matrix product follows the roofline of GpuModel, every other operator costs
// the bytes that it reads and writes. Backward has two matrix products for each
// product of forward (by weight and by input).
//
// Source: shapes from the Hugging Face implementations of BERT, Llama and
// Qwen2 (eager: each line of those files is a kernel); Korthikanti et al.
// (2022), Sec. 4 and 5 for what is saved under tensor and sequence parallelism;
// Liu et al. (2023), ring attention; Lepikhin et al. (2021), experts;
// docs/simulator.md, "Layers".
// Shapes: tokens = sequences * sequence_length / cp rows of hidden_size.
struct LayerCosts {
  LayerCost block;
  LayerCost dense_block;  // of the first Model::dense_layers
  LayerCost embedding;
  LayerCost head;
  double boundary_bytes = 0.0;  // hidden states between two blocks, per rank
};

[[nodiscard]] LayerCosts ComputeLayerCosts(const Workload& workload,
                                           const Framework& framework,
                                           const GpuModel& gpu,
                                           const Shard& shard);

// The share of one operator in a LayerCost, for comparison with a profile.
struct OperatorCost {
  std::string_view name;
  double forward_s = 0.0;  // GPU time
  double backward_s = 0.0;
  double accumulate_s = 0.0;        // as in LayerCost
  double forward_dispatch_s = 0.0;  // CPU time to issue the kernels
  double backward_dispatch_s = 0.0;
};

// The operators of a block, of the embedding and of the head, in the order of
// forward. Their sums are the fields of LayerCosts, except for the CPU time
// that a block needs in addition to its kernels. Names: norm, qkv, rotary, core
// (fused attention) or scores, softmax, dropout (of fused operators), context,
// output, residual, ffn-in, activation, ffn-out (or experts), embedding,
// shared-experts, final-norm, head. Blocks without experts of a model with
// experts are not among them.
[[nodiscard]] std::vector<OperatorCost> ComputeOperatorCosts(
    const Workload& workload, const Framework& framework, const GpuModel& gpu,
    const Shard& shard);

}  // namespace trials
