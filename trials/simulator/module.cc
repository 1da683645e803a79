#include "trials/simulator/module.h"

#include <algorithm>
#include <cmath>

namespace trials {
namespace {

bool Aligned(double row_bytes) { return std::fmod(row_bytes, 8.0) == 0.0; }

}  // namespace

Module::Module(const GpuModel& gpu,
               const Framework& framework,
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
  operators_->push_back({name,
                         sum.forward_s - ended_.forward_s,
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

void Module::Linear(
    double rows, double in, double out, bool bias, double kept) {
  const double e = gpu_.element_bytes();
  const bool aligned = Aligned(e * in) && Aligned(e * out);
  const double forward_s = gpu_.GemmTime({1.0, rows, out, in, aligned});
  cost_.forward_s += forward_s;
  cost_.kept_forward_s += kept * forward_s;
  cost_.kept_dispatch_s += kept * framework_.dispatch_s;
  cost_.kept_bytes += kept * e * rows * out;
  const double weights_s = gpu_.GemmTime({1.0, in, out, rows, aligned});
  cost_.backward_s += gpu_.GemmTime({1.0, rows, in, out, aligned}) + weights_s;
  cost_.weights_s += weights_s;
  Issue(1, 2);
  Parameter(in * out);
  if (bias) {  // its gradient is a sum over rows
    cost_.backward_s += gpu_.MemoryTime(rows * out * e);
    Issue(0, 1);
    Parameter(out);
  }
}

void Module::ExpertLinear(double experts, double rows, double in, double out) {
  cost_.forward_s += gpu_.GemmTime({experts, rows, out, in});
  const double weights_s = gpu_.GemmTime({experts, in, out, rows});
  cost_.backward_s += gpu_.GemmTime({experts, rows, in, out}) + weights_s;
  cost_.weights_s += weights_s;
  const int kernels = static_cast<int>(experts);
  Issue(kernels, 2 * kernels);
  cost_.expert_parameters.push_back(experts * in * out);
  Accumulate(experts * in * out);
}

void Module::Product(const Gemm& gemm) {
  cost_.forward_s += gpu_.GemmTime(gemm);
  cost_.backward_s += gpu_.GemmTime({gemm.batch, gemm.m, gemm.k, gemm.n}) +
                      gpu_.GemmTime({gemm.batch, gemm.k, gemm.n, gemm.m});
  Issue(1, 2);
}

void Module::Flash(double forward_flop, double forward_bytes, int rounds) {
  cost_.forward_s +=
      rounds * gpu_.FlashTime(forward_flop / rounds, forward_bytes / rounds);
  // Backward computes the scores again: five products instead of two.
  cost_.backward_s += rounds * gpu_.FlashTime(2.5 * forward_flop / rounds,
                                              2.5 * forward_bytes / rounds,
                                              /*backward=*/true);
  Issue(rounds, 2 * rounds);
}

void Module::Elementwise(double forward_bytes,
                         int forward_kernels,
                         double backward_bytes,
                         int backward_kernels) {
  cost_.forward_s += gpu_.MemoryTime(forward_bytes, forward_kernels);
  cost_.backward_s += gpu_.MemoryTime(backward_bytes, backward_kernels);
  Issue(forward_kernels, backward_kernels);
}

void Module::Save(double bytes) { cost_.saved_bytes += bytes; }

void Module::Temporary(double bytes) {
  cost_.working_bytes = std::max(cost_.working_bytes, bytes);
}

void Module::Parameter(double elements) {
  cost_.parameters.push_back(elements);
  Accumulate(elements);
}

void Module::Communicate(const Collectives& forward,
                         const Collectives& backward,
                         double bytes) {
  cost_.forward_collectives = forward;
  cost_.backward_collectives = backward;
  cost_.collective_bytes = bytes;
}

void Module::AddDispatch(double forward_s, double backward_s) {
  cost_.forward_dispatch_s += forward_s;
  cost_.backward_dispatch_s += backward_s;
}

// grad += new: two reads and a write. In the precision of compute it happens
// in every microbatch except the first; fp32 sums start from zeros.
void Module::Accumulate(double elements) {
  const double e = gpu_.element_bytes();
  const double bytes = framework_.fp32_gradients ? e + 8.0 : 3.0 * e;
  cost_.accumulate_s += gpu_.MemoryTime(bytes * elements);
}

void Module::Issue(int forward_kernels, int backward_kernels) {
  cost_.forward_dispatch_s += forward_kernels * framework_.dispatch_s;
  cost_.backward_dispatch_s +=
      backward_kernels * framework_.dispatch_backward_s;
}

}  // namespace trials
