// Bytes and kernels of a model's operators.

#pragma once

#include <string_view>

#include <gtest/gtest.h>

#include "tests/trials/simulator/problem.h"
#include "trials/gpu_architecture.h"
#include "trials/simulator/layer_cost.h"

namespace trials {

// What an operator moves in GPU memory, and the kernels that do it.
struct Traffic {
  double forward_bytes = 0.0;
  double forward_kernels = 0.0;
  double backward_bytes = 0.0;
  double backward_kernels = 0.0;
};

inline void ExpectTraffic(const Traffic& actual, const Traffic& expected) {
  EXPECT_NEAR(actual.forward_bytes / expected.forward_bytes, 1.0, 1e-9);
  EXPECT_NEAR(actual.forward_kernels, expected.forward_kernels, 1e-9);
  EXPECT_NEAR(actual.backward_bytes / expected.backward_bytes, 1.0, 1e-9);
  EXPECT_NEAR(actual.backward_kernels, expected.backward_kernels, 1e-9);
}

// A machine on which a byte takes a second on the GPU and a kernel takes one on
// the CPU; FLOPs and launches on the GPU take no time.
class OperatorBytes {
 public:
  OperatorBytes() {
    framework.dispatch.dispatch_s = framework.dispatch.dispatch_backward_s =
        1.0;
    framework.kernels.launch_s = 0.0;
  }

  Workload workload = SmallWorkload();
  Framework framework;
  Shard shard{.sequences = 4.0};

  [[nodiscard]] LayerCosts Costs() const {
    return ComputeLayerCosts(workload, framework, Machine(), shard);
  }
  [[nodiscard]] LayerCost Block() const { return Costs().block; }

  // The sum over the operators with that name.
  [[nodiscard]] Traffic Of(std::string_view name) const {
    Traffic sum;
    for (const OperatorCost& one :
         ComputeOperatorCosts(workload, framework, Machine(), shard)) {
      if (one.name == name) {
        sum.forward_bytes += one.forward_s;
        sum.forward_kernels += one.forward_dispatch_s;
        sum.backward_bytes += one.backward_s;
        sum.backward_kernels += one.backward_dispatch_s;
      }
    }
    return sum;
  }

 private:
  [[nodiscard]] GpuModel Machine() const {
    Gpu gpu = SmallCluster().gpu;
    gpu.half_flop_per_s = gpu.single_flop_per_s = 1e40;
    gpu.multiprocessors = 1;  // no waves
    gpu.memory_bandwidth_bytes_per_s =
        1.0 / FindGpuArchitecture(gpu.architecture).memory_fraction;
    return {gpu, workload.precision, framework.kernels.launch_s};
  }
};

// Bytes of a product of [m, k] and [k, n] in half precision, and of the two
// products of its backward pass.
inline double ProductBytes(double m, double n, double k) {
  return 2.0 * (m * k + k * n + m * n);
}

}  // namespace trials
