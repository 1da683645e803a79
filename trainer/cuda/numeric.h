// Numbers in kernels: bfloat16, vectors of numbers, reductions over a block.

#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "trainer/cuda/platform.h"

namespace trainer::cuda {

inline constexpr unsigned kAllLanes = 0xffffffffU;

struct alignas(2) Bf16 {
  std::uint16_t bits;
};

__host__ __device__ __forceinline__ float ToFloat(float x) { return x; }
__host__ __device__ __forceinline__ float ToFloat(Bf16 x) {
  const std::uint32_t bits = static_cast<std::uint32_t>(x.bits) << 16;
  float value = 0.0F;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

// The nearest number of type T, ties to even.
template <typename T>
__host__ __device__ __forceinline__ T Round(float x);
template <>
__host__ __device__ __forceinline__ float Round<float>(float x) {
  return x;
}
template <>
__host__ __device__ __forceinline__ Bf16 Round<Bf16>(float x) {
#ifdef __CUDA_ARCH__
  Bf16 result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
  return result;
#else
  std::uint32_t bits = 0;
  memcpy(&bits, &x, sizeof(bits));
  if ((bits & 0x7fffffffU) > 0x7f800000U) {
    return {static_cast<std::uint16_t>((bits >> 16) | 0x40U)};  // not a number
  }
  return {
      static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16)};
#endif
}

// Numbers that are loaded and stored together.
template <typename T, int width>
struct alignas(width * sizeof(T)) Vector {
  using Number = T;
  static constexpr int kWidth = width;
  T x[width];
};

struct SumOf {
  __device__ __forceinline__ float operator()(float a, float b) const {
    return a + b;
  }
};
struct MaxOf {
  template <typename T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};

template <typename T, typename Operation>
__device__ __forceinline__ T WarpReduce(T value, Operation operation) {
  for (unsigned distance = 16; distance > 0; distance /= 2) {
    value = operation(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

// The reduction over all threads of a block, in each of them.
template <typename Operation>
__device__ float BlockReduce(float value, float neutral, Operation operation) {
  __shared__ float partial[32];
  const unsigned lane = threadIdx.x % 32;
  value = WarpReduce(value, operation);
  if (lane == 0) {
    partial[threadIdx.x / 32] = value;
  }
  __syncthreads();
  value = lane < blockDim.x / 32 ? partial[lane] : neutral;
  value = WarpReduce(value, operation);
  __syncthreads();
  return value;
}

}  // namespace trainer::cuda
