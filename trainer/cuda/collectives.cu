#include "trainer/cuda/collectives.h"
#include "trainer/cuda/dispatch.h"
#include "trainer/cuda/numeric.h"

namespace trainer::cuda {
namespace {

template <typename T>
__global__ void ReduceBuffersKernel(bool maximum, std::int64_t size,
                                    std::int64_t part, Buffers from,
                                    Buffers to) {
  for (std::int64_t i = FlatIndex(); i < size; i += FlatStride()) {
    float result = ToFloat(reinterpret_cast<const T*>(from.data[0])[i]);
    for (int rank = 1; rank < from.count; ++rank) {
      const float value =
          ToFloat(reinterpret_cast<const T*>(from.data[rank])[i]);
      result = maximum ? fmaxf(result, value) : result + value;
    }
    if (part > 0) {
      reinterpret_cast<T*>(to.data[i / part])[i % part] = Round<T>(result);
      continue;
    }
    for (int rank = 0; rank < to.count; ++rank) {
      reinterpret_cast<T*>(to.data[rank])[i] = Round<T>(result);
    }
  }
}

}  // namespace

void ReduceBuffers(bool maximum, int width, std::int64_t size,
                   std::int64_t part, const Buffers& from, const Buffers& to,
                   cudaStream_t stream) {
  WithType(width, [&](auto number) {
    LaunchFlat(ReduceBuffersKernel<decltype(number)>, size, stream, maximum,
               size, part, from, to);
  });
}

}  // namespace trainer::cuda
