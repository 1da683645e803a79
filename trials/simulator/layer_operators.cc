#include "trials/simulator/layer_operators.h"

#include <algorithm>

namespace trials {

bool HasDropout(const Model& model) {
  return model.dropout && model.max_positions > 0 && model.patch_size == 0;
}

double LinearInputBytes(const LayerShape& shape) {
  return shape.element_bytes * shape.hidden *
         (shape.framework.collectives.gather_again ? shape.outer_tokens
                                                   : shape.tokens);
}

double ValueSize(const Model& model) {
  return model.value_head_size > 0 ? model.value_head_size : model.head_size;
}

LayerShape ShapeOf(const Workload& workload, const Framework& framework,
                   const GpuModel& gpu, const Shard& shard) {
  const Model& model = workload.model;
  const double sequence = workload.sequence_length;
  const double tp = shard.tp;
  const bool sp = shard.sp && shard.tp > 1;
  const double tokens = shard.sequences * sequence / shard.cp;
  const double heads = static_cast<double>(model.attention_heads) / tp;
  // Fewer key-value heads than ranks: each rank keeps a copy of one.
  const double kv_heads =
      std::max(1.0, static_cast<double>(model.kv_heads) / tp);
  const double value_size = ValueSize(model);
  return {model,
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
          kv_heads * model.head_size,
          kv_heads * value_size,
          heads * value_size,
          static_cast<double>(model.ffn_size) / tp};
}

// LayerNorm is one kernel in PyTorch; RMSNorm is written out in Python and
// works in fp32: cast, square, mean, scale, cast, weight.
void AddRowNorm(const LayerShape& shape, double elements, Module& module) {
  const double e = shape.element_bytes;
  if (shape.model.norm_bias || shape.framework.kernels.fused_operators) {
    module.Elementwise(2 * e * elements, 1, 4 * e * elements, 2);
    module.Save(e * elements);
  } else {
    module.Elementwise((5 * e + 28) * elements, 7, (6 * e + 52) * elements, 10);
    module.Save((e + 4) * elements);
  }
}

void AddNorm(const LayerShape& shape, Module& module) {
  AddRowNorm(shape, shape.outer_tokens * shape.hidden, module);
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
    const bool fused = shape.framework.kernels.fused_operators;
    module.Elementwise((fused ? 1 : 2 * e + 1) * elements, fused ? 0 : 1,
                       (2 * e + 1) * elements, 1);
    module.Save(elements);
  }
}

}  // namespace trials
