// The CUDA runtime, or the part of it that the trainer uses, on the CPU
// (emulation.h), and how kernels are launched on either.

#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#ifdef OPPA_EMULATE_CUDA
#include "trainer/cuda/emulation.h"
#else
#include <cuda_runtime.h>
#define OPPA_DYNAMIC_SHARED(name) \
  extern __shared__ __align__(16) unsigned char name[]
#endif

namespace trainer::cuda {

// Errors: throws std::runtime_error that names the call.
inline void Check(cudaError_t error, const char* call) {
  if (error != cudaSuccess) {
    throw std::runtime_error(std::string(call) + ": " +
                             cudaGetErrorString(error));
  }
}

#ifdef OPPA_EMULATE_CUDA
inline constexpr int kRowThreads = 64;   // of a block that reduces a row
inline constexpr int kColumnGroups = 2;  // rows that a block sums at a time
#else
inline constexpr int kRowThreads = 256;
inline constexpr int kColumnGroups = 8;
inline constexpr int kFlatThreads = 256;
inline constexpr std::int64_t kMostBlocks = 1 << 16;
#endif

#if defined(__CUDACC__) || defined(OPPA_EMULATE_CUDA)

struct Grid {
  std::int64_t blocks = 1, y = 1, z = 1;
  int threads = kRowThreads;
  std::size_t shared_bytes = 0;  // dynamic
};

// Runs blocks whose threads wait for each other.
template <typename... Parameters, typename... Arguments>
void Launch(void (*kernel)(Parameters...), const Grid& grid,
            cudaStream_t stream, Arguments... arguments) {
  if (grid.blocks == 0 || grid.y == 0 || grid.z == 0) {
    return;
  }
#ifdef OPPA_EMULATE_CUDA
  (void)stream;
  emulation::RunBlocks(static_cast<unsigned>(grid.blocks),
                       static_cast<unsigned>(grid.y),
                       static_cast<unsigned>(grid.z),
                       static_cast<unsigned>(grid.threads), grid.shared_bytes,
                       [&] { kernel(static_cast<Parameters>(arguments)...); });
#else
  constexpr std::size_t kWithoutRequest = 48 << 10;
  if (grid.shared_bytes > kWithoutRequest) {
    Check(cudaFuncSetAttribute(kernel,
                               cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(grid.shared_bytes)),
          "cudaFuncSetAttribute");
  }
  const dim3 blocks(static_cast<unsigned>(grid.blocks),
                    static_cast<unsigned>(grid.y),
                    static_cast<unsigned>(grid.z));
  kernel<<<blocks, grid.threads, grid.shared_bytes, stream>>>(
      static_cast<Parameters>(arguments)...);
  Check(cudaGetLastError(), "kernel launch");
#endif
}

// Runs a kernel whose threads stride over `count` elements and are independent
// of each other (FlatIndex, FlatStride).
template <typename... Parameters, typename... Arguments>
void LaunchFlat(void (*kernel)(Parameters...), std::int64_t count,
                cudaStream_t stream, Arguments... arguments) {
  if (count == 0) {
    return;
  }
#ifdef OPPA_EMULATE_CUDA
  (void)stream;
  emulation::RunThread([&] { kernel(static_cast<Parameters>(arguments)...); });
#else
  const std::int64_t blocks = (count + kFlatThreads - 1) / kFlatThreads;
  Launch(kernel,
         Grid{blocks < kMostBlocks ? blocks : kMostBlocks, 1, 1, kFlatThreads},
         stream, arguments...);
#endif
}

template <typename Index = std::int64_t>
__device__ __forceinline__ Index FlatIndex() {
  return static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
}
template <typename Index = std::int64_t>
__device__ __forceinline__ Index FlatStride() {
  return static_cast<Index>(gridDim.x) * blockDim.x;
}

#endif

}  // namespace trainer::cuda
