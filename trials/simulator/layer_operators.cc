#include "trials/simulator/layer_operators.h"

#include <cmath>

namespace trials {
namespace {

bool Aligned(double row_bytes) { return std::fmod(row_bytes, 16.0) == 0.0; }

}  // namespace

Module::Module(const GpuModel& gpu, const Framework& framework,
               std::vector<OperatorCost>* operators, const Training& training)
    : gpu_(gpu),
      framework_(framework),
      training_(training),
      trained_(training.Of(Weights::kNorms)),
      operators_(operators) {}

void Module::EndOperator(std::string_view name) {
  if (operators_ == nullptr) {
    return;
  }
  const OperatorCost sum{name,
                         cost_.forward_s,
                         cost_.backward_s,
                         cost_.accumulate_s,
                         cost_.forward_dispatch_s,
                         cost_.backward_dispatch_s};
  operators_->push_back({name, sum.forward_s - ended_.forward_s,
                         sum.backward_s - ended_.backward_s,
                         sum.accumulate_s - ended_.accumulate_s,
                         sum.forward_dispatch_s - ended_.forward_dispatch_s,
                         sum.backward_dispatch_s - ended_.backward_dispatch_s});
  ended_ = sum;
}

void Module::Keep(const LayerCost& before, double bytes) {
  cost_.kept_forward_s += cost_.forward_s - before.forward_s;
  cost_.kept_dispatch_s += cost_.forward_dispatch_s - before.forward_dispatch_s;
  cost_.kept_bytes += bytes;
}

void Module::Linear(double rows, double in, double out, bool bias,
                    double kept) {
  const double e = gpu_.element_bytes();
  const double forward_s =
      LinearProducts(1.0, rows, in, out, Aligned(e * in) && Aligned(e * out));
  cost_.kept_forward_s += kept * forward_s;
  cost_.kept_dispatch_s += kept * framework_.dispatch.dispatch_s;
  cost_.kept_bytes += kept * e * rows * out;
  const bool trains = trained_ == Trained::kWeights;
  Issue(1, trains ? 2 : 1);
  Parameter(in * out);
  if (trains) {
    AddShape(in, out);
  } else {
    AddFrozen(1.0, rows, in, out);
  }
  if (bias) {
    if (trains) {  // its gradient is a sum over rows
      cost_.backward_s += gpu_.MemoryTime(rows * out * e);
      Issue(0, 1);
    }
    Parameter(out);
  }
}

void Module::AddFrozen(double experts, double rows, double in, double out) {
  const double e = gpu_.element_bytes();
  const double frozen_bytes = training_.FrozenBytes(e);
  if (frozen_bytes < e && quantized_) {
    const double bytes = (frozen_bytes + e) * experts * in * out;
    Elementwise(bytes, 1, bytes, 1);
  }
  if (trained_ != Trained::kAdapter) {
    return;
  }
  trained_ = Trained::kWeights;
  const double rank = training_.lora_rank;
  (void)LinearProducts(experts, rows, in, rank, /*aligned=*/true);
  (void)LinearProducts(experts, rows, rank, out, /*aligned=*/true);
  // Its scaled result is added.
  Elementwise(3 * e * experts * rows * out, 2, 2 * e * experts * rows * out, 1);
  Issue(2, 4);
  Save(e * experts * rows * rank);
  for (const double elements : {experts * in * rank, experts * rank * out}) {
    if (experts > 1.0) {
      cost_.expert_parameters.push_back(elements);
      Accumulate(elements);
    } else {
      Parameter(elements);
    }
  }
  trained_ = Trained::kAdapter;
}

double Module::LinearProducts(double experts, double rows, double in,
                              double out, bool aligned) {
  const auto time_s = [&](double m, double n, double k) {
    Gemm gemm{experts, m, n, k, aligned};
    gemm.fp8 = fp8_;
    return gpu_.GemmTime(gemm) / framework_.kernels.gemm_speed;
  };
  const double forward_s = time_s(rows, out, in);
  const double weights_s =
      trained_ == Trained::kWeights ? time_s(in, out, rows) : 0.0;
  cost_.forward_s += forward_s;
  cost_.backward_s += time_s(rows, in, out) + weights_s;
  cost_.weights_s += weights_s;
  if (fp8_) {  // input and weight before the product, gradient of the output
    // 16 bits read, 8 written, and 8 transposed for backward. Weights that are
    // gathered in 8 bits are cast by their owners, once in a step.
    const bool casts_weights = !framework_.collectives.fp8_gathers;
    const double bytes = (gpu_.element_bytes() + 2.0) * experts;
    Elementwise(bytes * (rows * in + (casts_weights ? in * out : 0.0)),
                casts_weights ? 2 : 1, bytes * rows * out, 1);
  }
  return forward_s;
}

void Module::ExpertLinear(double experts, double rows, double in, double out) {
  (void)LinearProducts(experts, rows, in, out, /*aligned=*/true);
  const int kernels = static_cast<int>(experts);
  const double elements = experts * in * out;
  if (trained_ != Trained::kWeights) {
    Issue(kernels, kernels);
    cost_.frozen += elements;
    cost_.frozen_experts += elements;
    AddFrozen(experts, rows, in, out);
    return;
  }
  Issue(kernels, 2 * kernels);
  cost_.expert_parameters.push_back(elements);
  Accumulate(elements);
  AddShape(in, out);
}

void Module::Product(const Gemm& gemm) {
  const double e = gpu_.element_bytes();
  const bool aligned =
      Aligned(e * gemm.m) && Aligned(e * gemm.n) && Aligned(e * gemm.k);
  const auto time_s = [&](double m, double n, double k) {
    return gpu_.GemmTime({gemm.batch, m, n, k, aligned}) /
           framework_.kernels.gemm_speed;
  };
  cost_.forward_s += time_s(gemm.m, gemm.n, gemm.k);
  cost_.backward_s +=
      time_s(gemm.m, gemm.k, gemm.n) + time_s(gemm.k, gemm.n, gemm.m);
  Issue(1, 2);
}

void Module::Flash(const Attention& round, int rounds) {
  cost_.forward_s += rounds * gpu_.FlashTime(round) /
                     framework_.kernels.attention_forward_speed;
  cost_.backward_s += rounds * gpu_.FlashTime(round, /*backward=*/true) /
                      framework_.kernels.attention_backward_speed;
  Issue(rounds, 2 * rounds);
}

void Module::Elementwise(double forward_bytes, int forward_kernels,
                         double backward_bytes, int backward_kernels) {
  cost_.forward_s += gpu_.MemoryTime(forward_bytes, forward_kernels);
  cost_.backward_s += gpu_.MemoryTime(backward_bytes, backward_kernels);
  Issue(forward_kernels, backward_kernels);
}

void Module::Repeat(const LayerCost& before, double bytes) {
  cost_.selective_forward_s += cost_.forward_s - before.forward_s;
  cost_.selective_dispatch_s +=
      cost_.forward_dispatch_s - before.forward_dispatch_s;
  cost_.selective_bytes += bytes;
}

void Module::Parameter(double elements) {
  if (trained_ != Trained::kWeights) {
    cost_.frozen += elements;
    cost_.frozen_ends += quantized_ ? 0.0 : elements;
    return;
  }
  cost_.parameters.push_back(elements);
  Accumulate(elements);
}

void Module::Communicate(const Collectives& forward,
                         const Collectives& backward, double bytes) {
  cost_.forward_collectives = forward;
  cost_.backward_collectives = backward;
  cost_.collective_bytes = bytes;
  const double copy_bytes = framework_.collectives.collective_copy_bytes;
  if (copy_bytes > 0.0) {
    const auto copies = [](const Collectives& of) {
      return of.gathers_and_scatters + of.hidden_gathers;
    };
    Elementwise(copy_bytes * copies(forward) * bytes,
                static_cast<int>(copies(forward)),
                copy_bytes * copies(backward) * bytes,
                static_cast<int>(copies(backward)));
  }
}

void Module::AddDispatch(double forward_s, double backward_s) {
  cost_.forward_dispatch_s += forward_s;
  cost_.backward_dispatch_s += backward_s;
}

void Module::AddShape(double in, double out) {
  if (framework_.gradients.placeholder_gradients &&
      shapes_.emplace(in, out).second) {
    cost_.placeholder_bytes += gpu_.element_bytes() * in * out;
  }
}

// grad += new: two reads and a write. In the precision of compute it happens
// in every microbatch except the first; fp32 sums start from zeros.
void Module::Accumulate(double elements) {
  const double e = gpu_.element_bytes();
  const double bytes = framework_.gradients.fp32_gradients ? e + 8.0 : 3.0 * e;
  cost_.accumulate_s += gpu_.MemoryTime(bytes * elements);
}

void Module::Issue(int forward_kernels, int backward_kernels) {
  cost_.forward_dispatch_s += forward_kernels * framework_.dispatch.dispatch_s;
  cost_.backward_dispatch_s +=
      backward_kernels * framework_.dispatch.dispatch_backward_s;
}

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
          workload.training.RestBytes(gpu.element_bytes()),
          sequence,
          shard.sequences,
          tp,
          static_cast<double>(shard.cp),
          static_cast<double>(shard.ep),
          shard.whole_experts ? 1.0 : tp,
          sp,
          tokens,
          sp ? tokens / tp : tokens,
          static_cast<double>(model.hidden_size),
          heads,
          heads * model.head_size,
          kv_heads * model.head_size,
          kv_heads * value_size,
          heads * value_size,
          static_cast<double>(model.ffn_size) / tp,
          workload.training};
}

// LayerNorm is one kernel in PyTorch; RMSNorm is written out in Python and
// works in fp32: cast, square, mean, scale, cast, weight.
void AddRowNorm(const LayerShape& shape, double elements, Module& module) {
  const double e = shape.element_bytes;
  const Framework::Kernels& kernels = shape.framework.kernels;
  if (shape.model.norm_bias || kernels.fused_operators || kernels.fused_norm) {
    module.Elementwise(2 * e * elements, 1, 4 * e * elements, 2);
    module.Save(e * elements);
  } else {
    module.Elementwise((5 * e + 28) * elements, 7, (6 * e + 52) * elements, 10);
    module.Save((e + 4) * elements);
  }
}

void AddNorm(const LayerShape& shape, Module& module) {
  module.Use(Weights::kNorms);
  AddRowNorm(shape, shape.outer_tokens * shape.hidden, module);
  if (shape.model.plain_norms) {
    return;
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
    const bool fused = shape.framework.kernels.fused_operators;
    module.Elementwise((fused ? 1 : 2 * e + 1) * elements, fused ? 0 : 1,
                       (2 * e + 1) * elements, 1);
    module.Save(elements);
  }
}

}  // namespace trials
