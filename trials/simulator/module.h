// Operators of one module of a model, summed up.

#ifndef TRIALS_SIMULATOR_MODULE_H_
#define TRIALS_SIMULATOR_MODULE_H_

#include <string_view>
#include <vector>

#include "trials/simulator/framework.h"
#include "trials/simulator/gpu_model.h"
#include "trials/simulator/layer_cost.h"

namespace trials {

// Takes the operators of a module one by one and adds up what they cost: GPU
// time through GpuModel, CPU time by kernels, parameters, bytes, messages. An
// operator's backward has two matrix products for each of the forward's.
// Units: seconds, bytes, elements.
class Module {
 public:
  // `operators`: where the part of each operator is written to; may be null.
  Module(const GpuModel& gpu,
         const Framework& framework,
         std::vector<OperatorCost>* operators);

  // Ends an operator: all that was added since the last one ended.
  void End(std::string_view name);

  // A linear layer: rows [rows, in] times weight [in, out].
  void Linear(double rows, double in, double out, bool bias);

  // A linear layer of each of `experts`, on `rows` rows each.
  void ExpertLinear(double experts, double rows, double in, double out);

  // A product of two activations: both inputs get a gradient.
  void Product(const Gemm& gemm);

  // Fused attention in so many passes.
  void Flash(double forward_flop, double forward_bytes, int passes);

  // Kernels that only move bytes.
  void Elementwise(double forward_bytes,
                   int forward_kernels,
                   double backward_bytes,
                   int backward_kernels);

  void Save(double bytes);     // kept for backward
  void Working(double bytes);  // a temporary

  void Parameter(double elements);

  // All-reduces of `bytes`; an all-gather and a reduce-scatter each with
  // sequence parallelism (then `regathers` all-gathers come on top).
  void Messages(int forward, int backward, double bytes);
  void Halves(int forward, int backward, int regathers, double bytes);

  // CPU time beside that of the kernels.
  void Issue(double forward_s, double backward_s);

  [[nodiscard]] LayerCost& cost() { return cost_; }

 private:
  void Accumulate(double elements);
  void Dispatch(int forward_kernels, int backward_kernels);

  const GpuModel& gpu_;
  const Framework& framework_;
  LayerCost cost_;
  std::vector<OperatorCost>* operators_;
  OperatorCost ended_;  // sum of the operators that have ended
};

}  // namespace trials

#endif  // TRIALS_SIMULATOR_MODULE_H_
