// The part of CUDA that the trainer uses, on the CPU, so that its kernels and
// collectives run in tests on machines without a GPU.
//
// The threads of a block are coroutines of the calling thread, which switch at
// barriers and warp operations. Streams execute at once, so events never wait.
// What differs from a GPU: concurrency (data races between blocks or streams do
// not show) and the matrix products of cuBLASLt.

#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(threads)
// Of a block; blocks of one host thread run one after another.
#define __shared__ static thread_local
#define OPPA_DYNAMIC_SHARED(name) \
  unsigned char* name = emulation::DynamicShared()

namespace trainer::cuda {

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
};
inline thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulation {

// Runs body() in each thread of each block.
void RunBlocks(unsigned x, unsigned y, unsigned z, unsigned threads,
               std::size_t shared_bytes, const std::function<void()>& body);
// Runs body() in a grid of one thread without barriers.
void RunThread(const std::function<void()>& body);
[[nodiscard]] unsigned char* DynamicShared();
void SyncBlock();
void SyncWarp();
// The value that the thread of the same warp with number `lane` passes.
[[nodiscard]] std::uint32_t Exchange(std::uint32_t value, unsigned lane);

}  // namespace emulation

inline void __syncthreads() { emulation::SyncBlock(); }
inline void __syncwarp() { emulation::SyncWarp(); }
template <typename T>
T __shfl_xor_sync(unsigned /*mask*/, T value, unsigned lanes) {
  static_assert(sizeof(T) == 4);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, 4);
  bits = emulation::Exchange(bits, (threadIdx.x % 32) ^ lanes);
  std::memcpy(&value, &bits, 4);
  return value;
}

inline float __expf(float x) { return std::exp(x); }
inline float __fdividef(float a, float b) { return a / b; }

// ---- runtime ----
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorNotReady = 600
};
enum cudaMemcpyKind { cudaMemcpyDefault = 4 };
using cudaStream_t = void*;
using cudaEvent_t = void*;
inline constexpr unsigned cudaStreamNonBlocking = 1;
inline constexpr unsigned cudaEventDisableTiming = 2;

inline const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorInvalidValue ? "a copy of pageable memory" : "";
}
cudaError_t cudaMalloc(void** memory, std::size_t bytes);
cudaError_t cudaFree(void* memory);
inline cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
  return cudaMalloc(memory, bytes);
}
inline cudaError_t cudaFreeHost(void* memory) { return cudaFree(memory); }
// Refuses pageable memory, whose copies would block in the driver.
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream);
inline cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes,
                                   cudaStream_t /*stream*/) {
  std::memset(memory, value, bytes);
  return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int /*device*/) { return cudaSuccess; }
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = nullptr;
  return cudaSuccess;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) {
  return cudaSuccess;
}
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = nullptr;
  return cudaSuccess;
}
inline cudaError_t cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) {
  return cudaSuccess;
}

}  // namespace trainer::cuda
