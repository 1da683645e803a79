#include "trials/simulator/module.h"

#include <algorithm>
#include <cmath>

namespace trials {
namespace {

bool Aligned(double row_bytes) { return std::fmod(row_bytes, 16.0) == 0.0; }

}  // namespace

Module::Module(const GpuModel& gpu, const Framework& framework,
               std::vector<OperatorCost>* operators)
    : gpu_(gpu), framework_(framework), operators_(operators) {}

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
  Issue(1, 2);
  Parameter(in * out);
  AddShape(in, out);
  if (bias) {  // its gradient is a sum over rows
    cost_.backward_s += gpu_.MemoryTime(rows * out * e);
    Issue(0, 1);
    Parameter(out);
  }
}

double Module::LinearProducts(double experts, double rows, double in,
                              double out, bool aligned) {
  const auto time_s = [&](double m, double n, double k) {
    Gemm gemm{experts, m, n, k, aligned};
    gemm.fp8 = fp8_;
    return gpu_.GemmTime(gemm);
  };
  const double forward_s = time_s(rows, out, in);
  const double weights_s = time_s(in, out, rows);
  cost_.forward_s += forward_s;
  cost_.backward_s += time_s(rows, in, out) + weights_s;
  cost_.weights_s += weights_s;
  if (fp8_) {  // input and weight before the product, gradient of the output
    // 16 bits read, 8 written, and 8 transposed for backward.
    const double bytes = (gpu_.element_bytes() + 2.0) * experts;
    Elementwise(bytes * (rows * in + in * out), 2, bytes * rows * out, 1);
  }
  return forward_s;
}

void Module::ExpertLinear(double experts, double rows, double in, double out) {
  (void)LinearProducts(experts, rows, in, out, /*aligned=*/true);
  const int kernels = static_cast<int>(experts);
  Issue(kernels, 2 * kernels);
  cost_.expert_parameters.push_back(experts * in * out);
  Accumulate(experts * in * out);
  AddShape(in, out);
}

void Module::Product(const Gemm& gemm) {
  const double e = gpu_.element_bytes();
  const bool aligned =
      Aligned(e * gemm.m) && Aligned(e * gemm.n) && Aligned(e * gemm.k);
  const auto time_s = [&](double m, double n, double k) {
    return gpu_.GemmTime({gemm.batch, m, n, k, aligned});
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

void Module::Save(double bytes) { cost_.saved_bytes += bytes; }

void Module::Temporary(double bytes) {
  cost_.working_bytes = std::max(cost_.working_bytes, bytes);
}

void Module::Repeat(const LayerCost& before, double bytes) {
  cost_.selective_forward_s += cost_.forward_s - before.forward_s;
  cost_.selective_dispatch_s +=
      cost_.forward_dispatch_s - before.forward_dispatch_s;
  cost_.selective_bytes += bytes;
}

void Module::Parameter(double elements) {
  cost_.parameters.push_back(elements);
  Accumulate(elements);
}

void Module::Communicate(const Collectives& forward,
                         const Collectives& backward, double bytes) {
  cost_.forward_collectives = forward;
  cost_.backward_collectives = backward;
  cost_.collective_bytes = bytes;
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

}  // namespace trials
