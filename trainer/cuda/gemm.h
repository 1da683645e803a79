// Matrix products on a GPU.

#pragma once

#include <memory>

#include "trainer/cuda/platform.h"
#include "trainer/device.h"

namespace trainer::cuda {

inline constexpr std::size_t kWorkspaceBytes = std::size_t{64} << 20;

class GemmRunner {
 public:
  virtual ~GemmRunner() = default;
  // As Device::Gemm; sums in float.
  virtual void Run(const GemmShape& shape, Tensor a, Tensor b, Tensor c,
                   Tensor bias, cudaStream_t stream) = 0;
};

// workspace: kWorkspaceBytes of device memory, used by calls on one stream.
[[nodiscard]] std::unique_ptr<GemmRunner> MakeGemmRunner(void* workspace);

}  // namespace trainer::cuda
