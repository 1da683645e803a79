#include <cmath>

#include "trainer/cuda/attention.h"
#include "trainer/cuda/dispatch.h"

namespace trainer::cuda {
namespace {

struct AttentionSizes : AttentionShape {
  float scale;  // of scores: 1 / sqrt(head_size)

  explicit AttentionSizes(const AttentionShape& shape)
      : AttentionShape(shape),
        scale(1.0F / std::sqrt(static_cast<float>(shape.head_size))) {}

  // The keys that queries before `query_end` attend to.
  __device__ __forceinline__ std::int64_t KeyEnd(std::int64_t query_end) const {
    const std::int64_t seen = query_offset + query_end;
    return causal && seen < keys ? seen : keys;
  }
  __device__ __forceinline__ bool Sees(std::int64_t query,
                                       std::int64_t key) const {
    return query < queries && key < keys &&
           (!causal || key <= query_offset + query);
  }
};

template <typename T>
__device__ __forceinline__ float Dot(const T* a, const T* b,
                                     std::int64_t size) {
  float sum = 0.0F;
  for (std::int64_t i = 0; i < size; ++i) {
    sum += ToFloat(a[i]) * ToFloat(b[i]);
  }
  return sum;
}

// The places of a query and of the keys of its head.
struct Offsets {
  std::int64_t q, out, kv, statistics;
  __device__ Offsets(const AttentionSizes& sizes, std::int64_t batch,
                     std::int64_t head, std::int64_t query)
      : q((batch * sizes.queries + query) * sizes.q_stride +
          head * sizes.head_size),
        out((batch * sizes.queries + query) * sizes.out_stride +
            head * sizes.head_size),
        kv(batch * sizes.keys * sizes.kv_stride +
           head / (sizes.heads / sizes.kv_heads) * sizes.head_size),
        statistics((batch * sizes.heads + head) * sizes.queries + query) {}
};

// A block per query of a head, whose scores are in shared memory.
template <typename T>
__global__ void ForwardKernel(AttentionSizes sizes, AttentionArgs args) {
  const T* k = Of<T>(args.k);
  float* log_sums = Of<float>(args.kept);
  OPPA_DYNAMIC_SHARED(shared);
  auto* weights = reinterpret_cast<float*>(shared);
  const int query = static_cast<int>(blockIdx.x);
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  const Offsets at(sizes, blockIdx.z, blockIdx.y, query);
  const std::int64_t end = sizes.KeyEnd(query + 1);
  float maximum = -1e30F;
  for (int j = thread; j < end; j += threads) {
    weights[j] =
        sizes.scale * Dot(Of<T>(args.q) + at.q, k + at.kv + j * sizes.kv_stride,
                          sizes.head_size);
    maximum = fmaxf(maximum, weights[j]);
  }
  maximum = BlockReduce(maximum, -1e30F, MaxOf());
  float sum = 0.0F;
  for (int j = thread; j < end; j += threads) {
    weights[j] = expf(weights[j] - maximum);
    sum += weights[j];
  }
  sum = BlockReduce(sum, 0.0F, SumOf());  // also a barrier for the weights
  if (log_sums != nullptr && thread == 0) {
    log_sums[at.statistics] = maximum + logf(sum);
  }
  for (int d = thread; d < sizes.head_size; d += threads) {
    float value = 0.0F;
    for (int j = 0; j < end; ++j) {
      value +=
          weights[j] * ToFloat(Of<T>(args.v)[at.kv + j * sizes.kv_stride + d]);
    }
    Of<T>(args.out)[at.out + d] = Round<T>(value / sum);
  }
}

template <typename T>
__global__ void DeltaKernel(AttentionSizes sizes, AttentionArgs args) {
  const T* dout = Of<T>(args.dout);
  const T* out = Of<T>(args.out);
  const std::int64_t rows = sizes.queries * sizes.heads;
  for (std::int64_t i = blockIdx.x; i < rows; i += gridDim.x) {
    const Offsets at(sizes, blockIdx.z, i % sizes.heads, i / sizes.heads);
    float sum = 0.0F;
    for (int d = static_cast<int>(threadIdx.x); d < sizes.head_size; d += 32) {
      sum += ToFloat(dout[at.out + d]) * ToFloat(out[at.out + d]);
    }
    sum = WarpReduce(sum, SumOf());
    if (threadIdx.x == 0) {
      Of<float>(args.scratch)[at.statistics] = sum;
    }
  }
}

template <typename T>
__global__ void QueryGradientKernel(AttentionSizes sizes, AttentionArgs args) {
  const T* q = Of<T>(args.q);
  const T* k = Of<T>(args.k);
  const T* v = Of<T>(args.v);
  const T* dout = Of<T>(args.dout);
  const float* log_sums = Of<float>(args.kept);
  const float* deltas = Of<float>(args.scratch);
  OPPA_DYNAMIC_SHARED(shared);
  auto* weights = reinterpret_cast<float*>(shared);
  const int query = static_cast<int>(blockIdx.x);
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  const Offsets at(sizes, blockIdx.z, blockIdx.y, query);
  const std::int64_t end = sizes.KeyEnd(query + 1);
  for (int j = thread; j < end; j += threads) {
    const std::int64_t key = at.kv + j * sizes.kv_stride;
    const float score = sizes.scale * Dot(q + at.q, k + key, sizes.head_size);
    weights[j] =
        expf(score - log_sums[at.statistics]) *
        (Dot(dout + at.out, v + key, sizes.head_size) - deltas[at.statistics]);
  }
  __syncthreads();
  for (int d = thread; d < sizes.head_size; d += threads) {
    float value = 0.0F;
    for (int j = 0; j < end; ++j) {
      value += weights[j] * ToFloat(k[at.kv + j * sizes.kv_stride + d]);
    }
    Of<T>(args.dq)[at.q + d] = Round<T>(value * sizes.scale);
  }
}

// A block per key of a key-value head, the queries in pieces of its threads.
template <typename T>
__global__ void KeyGradientKernel(AttentionSizes sizes, AttentionArgs args) {
  const T* q = Of<T>(args.q);
  const T* k = Of<T>(args.k);
  const T* v = Of<T>(args.v);
  const T* dout = Of<T>(args.dout);
  const float* log_sums = Of<float>(args.kept);
  const float* deltas = Of<float>(args.scratch);
  OPPA_DYNAMIC_SHARED(shared);
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  auto* weights = reinterpret_cast<float*>(shared);
  float* gradients = weights + threads;
  float* k_sums = gradients + threads;  // [head_size], each of one thread
  float* v_sums = k_sums + sizes.head_size;
  const int key = static_cast<int>(blockIdx.x);
  const std::int64_t batch = blockIdx.z;
  const std::int64_t group = sizes.heads / sizes.kv_heads;
  const std::int64_t first_head = blockIdx.y * group;
  const std::int64_t own =
      Offsets(sizes, batch, first_head, 0).kv + key * sizes.kv_stride;
  for (int d = thread; d < sizes.head_size; d += threads) {
    k_sums[d] = v_sums[d] = 0.0F;
  }
  for (std::int64_t head = first_head; head < first_head + group; ++head) {
    for (std::int64_t begin = 0; begin < sizes.queries; begin += threads) {
      const std::int64_t query = begin + thread;
      __syncthreads();
      weights[thread] = gradients[thread] = 0.0F;
      if (sizes.Sees(query, key)) {
        const Offsets at(sizes, batch, head, query);
        const float score =
            sizes.scale * Dot(q + at.q, k + own, sizes.head_size);
        weights[thread] = expf(score - log_sums[at.statistics]);
        gradients[thread] =
            weights[thread] * (Dot(dout + at.out, v + own, sizes.head_size) -
                               deltas[at.statistics]);
      }
      __syncthreads();
      const std::int64_t left = sizes.queries - begin;
      const std::int64_t count = left < threads ? left : threads;
      for (int d = thread; d < sizes.head_size; d += threads) {
        for (int i = 0; i < count; ++i) {
          const Offsets at(sizes, batch, head, begin + i);
          k_sums[d] += gradients[i] * ToFloat(q[at.q + d]);
          v_sums[d] += weights[i] * ToFloat(dout[at.out + d]);
        }
      }
    }
  }
  for (int d = thread; d < sizes.head_size; d += threads) {
    Of<T>(args.dk)[own + d] = Round<T>(k_sums[d] * sizes.scale);
    Of<T>(args.dv)[own + d] = Round<T>(v_sums[d]);
  }
}

Grid GridOf(std::int64_t rows, std::int64_t heads, std::int64_t batch,
            std::int64_t floats) {
  return {rows, heads, batch, kRowThreads,
          static_cast<std::size_t>(floats) * sizeof(float)};
}

}  // namespace

std::int64_t AttentionStatisticsBytes(const AttentionShape& shape) {
  return shape.batch * shape.heads * shape.queries *
         static_cast<std::int64_t>(sizeof(float));
}

void PlainAttentionForward(const AttentionArgs& args, cudaStream_t stream) {
  const AttentionShape& shape = args.shape;
  WithType(args.q.width, [&](auto number) {
    Launch(ForwardKernel<decltype(number)>,
           GridOf(shape.queries, shape.heads, shape.batch, shape.keys), stream,
           AttentionSizes(shape), args);
  });
}

void PlainAttentionBackward(const AttentionArgs& args, cudaStream_t stream) {
  const AttentionShape& shape = args.shape;
  const AttentionSizes sizes(shape);
  WithType(args.q.width, [&](auto number) {
    using T = decltype(number);
    Launch(DeltaKernel<T>,
           Grid{shape.queries * shape.heads, 1, shape.batch, 32}, stream, sizes,
           args);
    Launch(QueryGradientKernel<T>,
           GridOf(shape.queries, shape.heads, shape.batch, shape.keys), stream,
           sizes, args);
    Launch(KeyGradientKernel<T>,
           GridOf(shape.keys, shape.kv_heads, shape.batch,
                  2 * (kRowThreads + shape.head_size)),
           stream, sizes, args);
  });
}

}  // namespace trainer::cuda
