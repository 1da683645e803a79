// The cost of one module of a model, summed over its operators.

#ifndef TRIALS_SIMULATOR_MODULE_H_
#define TRIALS_SIMULATOR_MODULE_H_

#include <string_view>
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
  Module(const GpuModel& gpu,
         const Framework& framework,
         std::vector<OperatorCost>* operators);

  // Ends an operator: everything added since the last one ended.
  void EndOperator(std::string_view name);

  // From here on, linear layers multiply in 8 bits if the GPU model does.
  void AllowFp8() { fp8_ = gpu_.fp8(); }

  // A linear layer: rows [rows, in] times weight [in, out].
  void Linear(double rows, double in, double out, bool bias);

  // A linear layer of each of `experts`, on `rows` rows each.
  void ExpertLinear(double experts, double rows, double in, double out);

  // A product of two activations: both inputs get a gradient.
  void Product(const Gemm& gemm);

  // Fused attention in `rounds` equal kernels, one for each block of a context.
  void Flash(const Attention& round, int rounds);

  // Kernels that only move bytes.
  void Elementwise(double forward_bytes,
                   int forward_kernels,
                   double backward_bytes,
                   int backward_kernels);

  void Save(double bytes);       // kept for backward
  void Temporary(double bytes);  // freed within the module

  void Parameter(double elements);

  // Tensor-parallel collectives of `bytes` each.
  void Communicate(const Collectives& forward,
                   const Collectives& backward,
                   double bytes);

  // CPU time in addition to that of the kernels.
  void AddDispatch(double forward_s, double backward_s);

  [[nodiscard]] LayerCost& cost() { return cost_; }

 private:
  void Accumulate(double elements);
  // The products of a linear layer of each of `experts` (1: no experts).
  void LinearProducts(
      double experts, double rows, double in, double out, bool aligned);
  void Issue(int forward_kernels, int backward_kernels);

  const GpuModel& gpu_;
  const Framework& framework_;
  bool fp8_ = false;
  LayerCost cost_;
  std::vector<OperatorCost>* operators_;
  OperatorCost ended_;  // sum of the operators that have ended
};

}  // namespace trials

#endif  // TRIALS_SIMULATOR_MODULE_H_
