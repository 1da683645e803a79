// The operators of a model's modules, and the sum of their costs.

#pragma once

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "trials/simulator/framework.h"
#include "trials/simulator/gpu_model.h"
#include "trials/simulator/layer_cost.h"

namespace trials {

// Takes the operators of a module one by one and adds up their costs: GPU time
// by GpuModel, CPU time by kernel, parameters, bytes, collectives. Backward of
// an operator has two matrix products for each product of forward.
// Units: seconds, bytes, elements.
class Module {
 public:
  // `operators`: receives the cost of each operator; may be null.
  Module(const GpuModel& gpu, const Framework& framework,
         std::vector<OperatorCost>* operators, const Training& training = {});

  // Ends an operator: everything added since the last one ended.
  void EndOperator(std::string_view name);

  // From here on, weights are of this kind. `targeted`: LoRA puts adapters
  // beside them if it does so beside this kind.
  void Use(Weights weights, bool targeted = true) {
    trained_ = training_.Of(weights);
    if (trained_ == Trained::kAdapter && !targeted) {
      trained_ = Trained::kNothing;
    }
    quantized_ =
        weights == Weights::kAttention || weights == Weights::kFeedForward;
  }

  // From here on, linear layers multiply in 8 bits if the GPU model does.
  void AllowFp8() { fp8_ = gpu_.fp8(); }
  [[nodiscard]] bool fp8() const { return fp8_; }
  // Kept of the input of a linear layer: its quantized copy, in 8 bits; nothing
  // where no gradient needs it.
  [[nodiscard]] double InputBytes(double bytes) const {
    return trained_ == Trained::kNothing ? 0.0
           : fp8_                        ? bytes / gpu_.element_bytes()
                                         : bytes;
  }

  // A linear layer: rows [rows, in] times weight [in, out]. `kept`: the share
  // of its results that selective recomputation by operator keeps.
  void Linear(double rows, double in, double out, bool bias, double kept = 0.0);

  // The result of the operator since `before` is kept, too.
  void Keep(const LayerCost& before, double bytes);

  // A linear layer of each of `experts`, on `rows` rows each.
  void ExpertLinear(double experts, double rows, double in, double out);

  // A product of two activations: both inputs get a gradient.
  void Product(const Gemm& gemm);

  // Fused attention in `rounds` equal kernels, one for each block of a context.
  void Flash(const Attention& round, int rounds);

  // Kernels that only move bytes.
  void Elementwise(double forward_bytes, int forward_kernels,
                   double backward_bytes, int backward_kernels);

  // Kept for backward.
  void Save(double bytes) { cost_.saved_bytes += bytes; }
  // Freed within the module.
  void Temporary(double bytes) {
    cost_.working_bytes = std::max(cost_.working_bytes, bytes);
  }

  // Selective recomputation repeats what has been added since `before` and does
  // not keep `bytes` of it.
  void Repeat(const LayerCost& before, double bytes);

  void Parameter(double elements);

  // Tensor-parallel collectives of `bytes` each, and the copies around them.
  void Communicate(const Collectives& forward, const Collectives& backward,
                   double bytes);

  // CPU time in addition to that of the kernels.
  void AddDispatch(double forward_s, double backward_s);

  [[nodiscard]] LayerCost& cost() { return cost_; }

  // Shapes [in, out] of weights whose placeholders exist.
  using Shapes = std::set<std::pair<double, double>>;
  [[nodiscard]] Shapes& shapes() { return shapes_; }

 private:
  void AddShape(double in, double out);  // of a weight
  void Accumulate(double elements);
  // The products of a linear layer of each of `experts` (1: no experts).
  // Returns the time of the forward product.
  double LinearProducts(double experts, double rows, double in, double out,
                        bool aligned);
  // What a frozen weight of each of `experts` needs: its expansion from fewer
  // bits, and the adapter beside it.
  void AddFrozen(double experts, double rows, double in, double out);
  void Issue(int forward_kernels, int backward_kernels);

  const GpuModel& gpu_;
  const Framework& framework_;
  Training training_;
  Trained trained_;
  bool quantized_ = false;  // where frozen weights have few bits
  bool fp8_ = false;
  LayerCost cost_;
  Shapes shapes_;
  std::vector<OperatorCost>* operators_;
  OperatorCost ended_;  // sum of the operators that have ended
};

// Sizes of a model's operators on one GPU.
struct LayerShape {
  const Model& model;
  const Framework& framework;
  double element_bytes;
  double sequence;   // tokens
  double sequences;  // of a microbatch
  double tp;
  double cp;
  double ep;
  double expert_tp;     // tp ranks that share an expert: tp or 1
  bool sp;              // with tp > 1
  double tokens;        // inside tensor-parallel layers
  double outer_tokens;  // outside: 1/tp of them with sequence parallelism
  double hidden;
  double heads;   // attention heads of this rank
  double query;   // their width
  double key;     // width of this rank's key-value heads
  double value;   // of its values
  double result;  // of the weighted sums of values
  double ffn;
  const Training& training;
};

[[nodiscard]] LayerShape ShapeOf(const Workload& workload,
                                 const Framework& framework,
                                 const GpuModel& gpu, const Shard& shard);

// BERT and GPT train with dropout, ViT by default does not.
[[nodiscard]] bool HasDropout(const Model& model);

// Bytes that a linear layer keeps of its input, which sequence parallelism
// gathers from the ranks.
[[nodiscard]] double LinearInputBytes(const LayerShape& shape);

// Width of a head's values.
[[nodiscard]] double ValueSize(const Model& model);

// Each function adds an operator, or several, to a module.
void AddNorm(const LayerShape& shape, Module& module);
// Normalizes rows with `elements` in all; adds no parameters.
void AddRowNorm(const LayerShape& shape, double elements, Module& module);
// y = x + f(x), with a dropout in BERT's family.
void AddResidual(const LayerShape& shape, Module& module);
// Query, key, value; rotary positions; core; output. Ends each of them.
void AddAttention(const LayerShape& shape, Module& module);
// A state-space layer or linear attention: product, short convolution, chunked
// scan, gate and norm, product. An estimate: no measurement was compared.
// Source: Dao and Gu (2024), "Transformers are SSMs", Sec. 6: in chunks of Q
// tokens, each head has four products (its scores, their sum of values, the
// states at the ends of the chunks, and their results), with Q = 256.
void AddStateSpace(const LayerShape& shape, Module& module);
// Two matrices (gated: three) and what is between them. Ends each of them.
void AddFeedForward(const LayerShape& shape, Module& module);
// A router chooses experts for every token; the copies travel to the ranks of
// their experts and back. The busiest rank sets the pace. Shared experts
// compute every token.
void AddExperts(const LayerShape& shape, Module& module);

}  // namespace trials
