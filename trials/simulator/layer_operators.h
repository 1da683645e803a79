// The operators of a model's modules.

#ifndef TRIALS_SIMULATOR_LAYER_OPERATORS_H_
#define TRIALS_SIMULATOR_LAYER_OPERATORS_H_

#include "trials/simulator/module.h"

namespace trials {

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
// The same of rows with `elements` in all, without its parameters.
void AddRowNorm(const LayerShape& shape, double elements, Module& module);
// y = x + f(x), with a dropout in BERT's family.
void AddResidual(const LayerShape& shape, Module& module);
// Query, key, value; rotary positions; core; output. Ends each of them.
void AddAttention(const LayerShape& shape, Module& module);
// Two matrices (gated: three) and what is between them. Ends each of them.
void AddFeedForward(const LayerShape& shape, Module& module);
// A router chooses experts for every token; the copies travel to the ranks of
// their experts and back. The busiest rank sets the pace. Shared experts
// compute every token.
void AddExperts(const LayerShape& shape, Module& module);

}  // namespace trials

#endif  // TRIALS_SIMULATOR_LAYER_OPERATORS_H_
