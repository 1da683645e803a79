// Numbers in kernels: bfloat16, reductions over a block, and the tensor-core
// instructions that attention uses.

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

// Two numbers in one register, `low` in the lower half.
__device__ __forceinline__ std::uint32_t Pack(float low, float high) {
#ifdef __CUDA_ARCH__
  std::uint32_t result;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
#else
  return Round<Bf16>(low).bits |
         (static_cast<std::uint32_t>(Round<Bf16>(high).bits) << 16);
#endif
}

struct SumOf {
  __device__ __forceinline__ float operator()(float a, float b) const {
    return a + b;
  }
};
struct MaxOf {
  __device__ __forceinline__ float operator()(float a, float b) const {
    return a > b ? a : b;
  }
};

template <typename Operation>
__device__ __forceinline__ float WarpReduce(float value, Operation operation) {
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

// ---- tensor cores: mma.m16n8k16 of bf16 with float accumulation ----
// g = lane / 4, t = lane % 4. Registers hold two elements each:
//   a: (g, 2t..), (g + 8, 2t..), (g, 2t + 8..), (g + 8, 2t + 8..)
//   b: (k = 2t.., n = g), (k = 2t + 8.., n = g)
//   c: (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1)
// Source: PTX ISA, "Matrix Fragments for mma.m16n8k16".
__device__ __forceinline__ void MultiplyAdd(const std::uint32_t (&a)[4],
                                            std::uint32_t b0, std::uint32_t b1,
                                            float (&c)[4]) {
#ifdef __CUDA_ARCH__
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#elif defined(OPPA_EMULATE_CUDA)
  constexpr unsigned kWords = 6;
  std::uint32_t* memory = emulation::WarpMemory();
  const unsigned lane = threadIdx.x % 32;
  for (unsigned i = 0; i < 4; ++i) {
    memory[lane * kWords + i] = a[i];
  }
  memory[lane * kWords + 4] = b0;
  memory[lane * kWords + 5] = b1;
  emulation::SyncWarp();
  const auto element = [memory](unsigned from, unsigned word, unsigned k) {
    const std::uint32_t pair = memory[from * kWords + word];
    return ToFloat(
        Bf16{static_cast<std::uint16_t>(k % 2 == 0 ? pair : pair >> 16)});
  };
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = lane / 4;  // + 8 in the other word
    const unsigned col = lane % 4 * 2 + i % 2;
    for (unsigned k = 0; k < 16; ++k) {
      const unsigned t = k % 8 / 2;
      c[i] += element(row * 4 + t, i / 2 + k / 8 * 2, k) *
              element(col * 4 + t, 4 + k / 8, k);
    }
  }
  emulation::SyncWarp();
#else
  (void)a, (void)b0, (void)b1, (void)c;
#endif
}

// Loads four 8 x 8 matrices of bf16 from shared memory. Lane l passes the
// address of row l % 8 of matrix l / 8 and gets, of matrix i, the elements
// (g, 2t), (g, 2t + 1), or (2t, g), (2t + 1, g) if transposed.
// Source: PTX ISA, ldmatrix.
template <bool kTransposed>
__device__ __forceinline__ void LoadMatrices(const Bf16* row,
                                             std::uint32_t (&registers)[4]) {
#ifdef __CUDA_ARCH__
  const auto address =
      static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  if constexpr (kTransposed) {
    asm volatile(
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
        : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]),
          "=r"(registers[3])
        : "r"(address)
        : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]),
                   "=r"(registers[3])
                 : "r"(address)
                 : "memory");
  }
#elif defined(OPPA_EMULATE_CUDA)
  std::uint32_t* memory = emulation::WarpMemory();
  const unsigned lane = threadIdx.x % 32;
  std::memcpy(memory + lane * 2, &row, sizeof(row));
  emulation::SyncWarp();
  const auto element = [memory](unsigned matrix, unsigned i, unsigned j) {
    const Bf16* from = nullptr;
    std::memcpy(&from, memory + (matrix * 8 + i) * 2, sizeof(from));
    return static_cast<std::uint32_t>(from[j].bits);
  };
  const unsigned g = lane / 4;
  const unsigned t = lane % 4 * 2;
  for (unsigned m = 0; m < 4; ++m) {
    registers[m] = kTransposed ? element(m, t, g) | element(m, t + 1, g) << 16
                               : element(m, g, t) | element(m, g, t + 1) << 16;
  }
  emulation::SyncWarp();
#else
  (void)row, (void)registers;
#endif
}

}  // namespace trainer::cuda
