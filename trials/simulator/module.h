// The cost of one module of a model, summed over its operators.

#ifndef TRIALS_SIMULATOR_MODULE_H_
#define TRIALS_SIMULATOR_MODULE_H_

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
         std::vector<OperatorCost>* operators);

  // Ends an operator: everything added since the last one ended.
  void EndOperator(std::string_view name);

  // From here on, linear layers multiply in 8 bits if the GPU model does.
  void AllowFp8() { fp8_ = gpu_.fp8(); }

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

  void Save(double bytes);       // kept for backward
  void Temporary(double bytes);  // freed within the module

  // Selective recomputation repeats what has been added since `before` and does
  // not keep `bytes` of it.
  void Repeat(const LayerCost& before, double bytes);

  void Parameter(double elements);

  // Tensor-parallel collectives of `bytes` each.
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
  void Issue(int forward_kernels, int backward_kernels);

  const GpuModel& gpu_;
  const Framework& framework_;
  bool fp8_ = false;
  LayerCost cost_;
  Shapes shapes_;
  std::vector<OperatorCost>* operators_;
  OperatorCost ended_;  // sum of the operators that have ended
};

}  // namespace trials

#endif  // TRIALS_SIMULATOR_MODULE_H_
