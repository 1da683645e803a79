// The kernels of attention for bfloat16 and heads of at most 128 numbers. Other
// shapes: attention_plain.cu.

#include <cmath>
#include <initializer_list>

#include "trainer/cuda/attention.h"
#include "trainer/cuda/attention_plain.h"
#include "trainer/cuda/attention_tiles.h"
#include "trainer/cuda/dispatch.h"

namespace trainer::cuda {
namespace {

constexpr float kLog2E = 1.4426950408889634F;
constexpr float kNone = -1e30F;  // less than any score

struct Head {
  int batch, head, kv_head;
};

__device__ __forceinline__ Head HeadOf(const AttentionSizes& sizes) {
  const int head = static_cast<int>(blockIdx.y);
  return {static_cast<int>(blockIdx.z), head,
          head / (sizes.heads / sizes.kv_heads)};
}

__device__ __forceinline__ std::int64_t StatisticsRow(
    const AttentionSizes& sizes, int batch, int head) {
  return (static_cast<std::int64_t>(batch) * sizes.heads + head) *
         sizes.queries;
}

// The sum or maximum over the four lanes that share a row of a result.
template <typename Operation>
__device__ __forceinline__ float RowReduce(float value, Operation operation) {
  value = operation(value, __shfl_xor_sync(kAllLanes, value, 1));
  return operation(value, __shfl_xor_sync(kAllLanes, value, 2));
}

// Maximum, sum and result of the rows g (upper half) or g + 8 of a warp.
struct RunningRow {
  float maximum = kNone;
  float sum = 0.0F;
};

// Replaces scores by exp(score - maximum) and returns the factor of what was
// summed with the previous maximum. `half`: 0 or 2, the upper or lower row.
template <int kTiles>
__device__ __forceinline__ float Renormalize(float (&scores)[kTiles][4],
                                             int half, float scale,
                                             RunningRow& row) {
  float maximum = row.maximum;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    maximum = fmaxf(maximum, fmaxf(scores[n][half], scores[n][half + 1]));
  }
  maximum = RowReduce(maximum, MaxOf());
  const float factor = exp2f((row.maximum - maximum) * scale);
  float sum = 0.0F;
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    for (int i = half; i < half + 2; ++i) {
      const float score = scores[n][i];
      scores[n][i] = score <= kNone ? 0.0F : exp2f((score - maximum) * scale);
      sum += scores[n][i];
    }
  }
  row.sum = row.sum * factor + RowReduce(sum, SumOf());
  row.maximum = maximum;
  return factor;
}

template <int kSize>
__global__ void __launch_bounds__(kTileThreads)
    ForwardKernel(AttentionSizes sizes, AttentionArgs args) {
  constexpr int kKeys = 64;
  constexpr int kTiles = kKeys / 8;
  OPPA_DYNAMIC_SHARED(shared);
  const Tile<kSize> q_tile{reinterpret_cast<Bf16*>(shared)};
  const Tile<kSize> k_tile{q_tile.Row(kOwnRows)};
  const Tile<kSize> v_tile{k_tile.Row(kKeys)};
  const Head head = HeadOf(sizes);
  const int first = static_cast<int>(blockIdx.x) * kOwnRows;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const Bf16* q =
      Of<Bf16>(args.q) +
      static_cast<std::int64_t>(head.batch) * sizes.queries * sizes.q_stride +
      head.head * sizes.head_size;
  const std::int64_t kv =
      static_cast<std::int64_t>(head.batch) * sizes.keys * sizes.kv_stride +
      head.kv_head * sizes.head_size;
  const Bf16* k = Of<Bf16>(args.k) + kv;
  const Bf16* v = Of<Bf16>(args.v) + kv;
  q_tile.Load(q, sizes.q_stride, first, kOwnRows, sizes.queries,
              sizes.head_size);
  float sums[kSize / 8][4] = {};
  RunningRow upper, lower;
  const int query = first + warp_row + lane / 4;
  const int end = sizes.KeyEnd(first + kOwnRows);
  for (int key = 0; key < end; key += kKeys) {
    __syncthreads();
    k_tile.Load(k, sizes.kv_stride, key, kKeys, sizes.keys, sizes.head_size);
    v_tile.Load(v, sizes.kv_stride, key, kKeys, sizes.keys, sizes.head_size);
    __syncthreads();
    float scores[kTiles][4] = {};
    MultiplyTransposed(q_tile, warp_row, k_tile, scores);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int col = key + n * 8 + lane % 4 * 2 + i % 2;
        if (!sizes.Sees(query + i / 2 * 8, col)) {
          scores[n][i] = kNone;
        }
      }
    }
    const float scale = sizes.scale * kLog2E;
    const float upper_factor = Renormalize(scores, 0, scale, upper);
    const float lower_factor = Renormalize(scores, 2, scale, lower);
#pragma unroll
    for (int n = 0; n < kSize / 8; ++n) {
      sums[n][0] *= upper_factor;
      sums[n][1] *= upper_factor;
      sums[n][2] *= lower_factor;
      sums[n][3] *= lower_factor;
    }
    MultiplyWeights(scores, v_tile, sums);
  }
  if (args.kept.data != nullptr && lane % 4 == 0) {
    float* log_sums =
        Of<float>(args.kept) + StatisticsRow(sizes, head.batch, head.head);
    if (query < sizes.queries) {
      log_sums[query] = upper.maximum * sizes.scale + logf(upper.sum);
    }
    if (query + 8 < sizes.queries) {
      log_sums[query + 8] = lower.maximum * sizes.scale + logf(lower.sum);
    }
  }
  if (args.out.data != nullptr) {
    Bf16* out = Of<Bf16>(args.out) +
                static_cast<std::int64_t>(head.batch) * sizes.queries *
                    sizes.out_stride +
                head.head * sizes.head_size;
    Store<kSize>(sums, 1.0F / upper.sum, 1.0F / lower.sum, out,
                 sizes.out_stride, first + warp_row, sizes.queries,
                 sizes.head_size);
  }
}

// dq of 64 queries.
template <int kSize>
__global__ void __launch_bounds__(kTileThreads)
    QueryGradientKernel(AttentionSizes sizes, AttentionArgs args) {
  constexpr int kKeys = 32;
  constexpr int kTiles = kKeys / 8;
  OPPA_DYNAMIC_SHARED(shared);
  const Tile<kSize> q_tile{reinterpret_cast<Bf16*>(shared)};
  const Tile<kSize> dout_tile{q_tile.Row(kOwnRows)};
  const Tile<kSize> k_tile{dout_tile.Row(kOwnRows)};
  const Tile<kSize> v_tile{k_tile.Row(kKeys)};
  const Head head = HeadOf(sizes);
  const int first = static_cast<int>(blockIdx.x) * kOwnRows;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const std::int64_t tokens =
      static_cast<std::int64_t>(head.batch) * sizes.queries;
  const std::int64_t own =
      tokens * sizes.q_stride + head.head * sizes.head_size;
  const Bf16* q = Of<Bf16>(args.q) + own;
  const Bf16* dout = Of<Bf16>(args.dout) + tokens * sizes.out_stride +
                     head.head * sizes.head_size;
  const std::int64_t kv =
      static_cast<std::int64_t>(head.batch) * sizes.keys * sizes.kv_stride +
      head.kv_head * sizes.head_size;
  const Bf16* k = Of<Bf16>(args.k) + kv;
  const Bf16* v = Of<Bf16>(args.v) + kv;
  const std::int64_t statistics = StatisticsRow(sizes, head.batch, head.head);
  const float* log_sums = Of<float>(args.kept) + statistics;
  const float* deltas = Of<float>(args.scratch) + statistics;
  q_tile.Load(q, sizes.q_stride, first, kOwnRows, sizes.queries,
              sizes.head_size);
  dout_tile.Load(dout, sizes.out_stride, first, kOwnRows, sizes.queries,
                 sizes.head_size);
  const int query = first + warp_row + lane / 4;
  float log_sum[2] = {}, delta[2] = {};
  for (int i = 0; i < 2; ++i) {
    if (query + i * 8 < sizes.queries) {
      log_sum[i] = log_sums[query + i * 8];
      delta[i] = deltas[query + i * 8];
    }
  }
  float sums[kSize / 8][4] = {};
  const int end = sizes.KeyEnd(first + kOwnRows);
  for (int key = 0; key < end; key += kKeys) {
    __syncthreads();
    k_tile.Load(k, sizes.kv_stride, key, kKeys, sizes.keys, sizes.head_size);
    v_tile.Load(v, sizes.kv_stride, key, kKeys, sizes.keys, sizes.head_size);
    __syncthreads();
    float scores[kTiles][4] = {}, gradients[kTiles][4] = {};
    MultiplyTransposed(q_tile, warp_row, k_tile, scores);
    MultiplyTransposed(dout_tile, warp_row, v_tile, gradients);
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int col = key + n * 8 + lane % 4 * 2 + i % 2;
        const float probability =
            sizes.Sees(query + i / 2 * 8, col)
                ? exp2f((scores[n][i] * sizes.scale - log_sum[i / 2]) * kLog2E)
                : 0.0F;
        scores[n][i] = probability * (gradients[n][i] - delta[i / 2]);
      }
    }
    MultiplyWeights(scores, k_tile, sums);
  }
  Store<kSize>(sums, sizes.scale, sizes.scale, Of<Bf16>(args.dq) + own,
               sizes.q_stride, first + warp_row, sizes.queries,
               sizes.head_size);
}

// dk and dv of 64 keys of a key-value head; results of a warp have keys as rows
// and queries as columns.
template <int kSize>
__global__ void __launch_bounds__(kTileThreads)
    KeyGradientKernel(AttentionSizes sizes, AttentionArgs args) {
  constexpr int kQueries = 32;
  constexpr int kTiles = kQueries / 8;
  OPPA_DYNAMIC_SHARED(shared);
  const Tile<kSize> k_tile{reinterpret_cast<Bf16*>(shared)};
  const Tile<kSize> v_tile{k_tile.Row(kOwnRows)};
  const Tile<kSize> q_tile{v_tile.Row(kOwnRows)};
  const Tile<kSize> dout_tile{q_tile.Row(kQueries)};
  const int kv_head = static_cast<int>(blockIdx.y);
  const int batch = static_cast<int>(blockIdx.z);
  const int group = sizes.heads / sizes.kv_heads;
  const int first = static_cast<int>(blockIdx.x) * kOwnRows;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const std::int64_t kv =
      static_cast<std::int64_t>(batch) * sizes.keys * sizes.kv_stride +
      kv_head * sizes.head_size;
  const float* log_sums = Of<float>(args.kept);
  const float* deltas = Of<float>(args.scratch);
  k_tile.Load(Of<Bf16>(args.k) + kv, sizes.kv_stride, first, kOwnRows,
              sizes.keys, sizes.head_size);
  v_tile.Load(Of<Bf16>(args.v) + kv, sizes.kv_stride, first, kOwnRows,
              sizes.keys, sizes.head_size);
  const int key = first + warp_row + lane / 4;
  const int before = first - sizes.query_offset;  // the first query that sees
  const int begin =
      sizes.causal && before > 0 ? before / kQueries * kQueries : 0;
  float k_sums[kSize / 8][4] = {}, v_sums[kSize / 8][4] = {};
  const std::int64_t tokens = static_cast<std::int64_t>(batch) * sizes.queries;
  for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    const Bf16* head_q =
        Of<Bf16>(args.q) + tokens * sizes.q_stride + head * sizes.head_size;
    const Bf16* head_dout = Of<Bf16>(args.dout) + tokens * sizes.out_stride +
                            head * sizes.head_size;
    const std::int64_t statistics = StatisticsRow(sizes, batch, head);
    for (int query = begin; query < sizes.queries; query += kQueries) {
      __syncthreads();
      q_tile.Load(head_q, sizes.q_stride, query, kQueries, sizes.queries,
                  sizes.head_size);
      dout_tile.Load(head_dout, sizes.out_stride, query, kQueries,
                     sizes.queries, sizes.head_size);
      __syncthreads();
      float scores[kTiles][4] = {}, gradients[kTiles][4] = {};
      MultiplyTransposed(k_tile, warp_row, q_tile, scores);
      MultiplyTransposed(v_tile, warp_row, dout_tile, gradients);
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int col = query + n * 8 + lane % 4 * 2 + i % 2;
          float probability = 0.0F;
          float gradient = 0.0F;
          if (sizes.Sees(col, key + i / 2 * 8)) {
            probability = exp2f(
                (scores[n][i] * sizes.scale - log_sums[statistics + col]) *
                kLog2E);
            gradient =
                probability * (gradients[n][i] - deltas[statistics + col]);
          }
          scores[n][i] = probability;
          gradients[n][i] = gradient;
        }
      }
      MultiplyWeights(scores, dout_tile, v_sums);
      MultiplyWeights(gradients, q_tile, k_sums);
    }
  }
  Store<kSize>(k_sums, sizes.scale, sizes.scale, Of<Bf16>(args.dk) + kv,
               sizes.kv_stride, first + warp_row, sizes.keys, sizes.head_size);
  Store<kSize>(v_sums, 1.0F, 1.0F, Of<Bf16>(args.dv) + kv, sizes.kv_stride,
               first + warp_row, sizes.keys, sizes.head_size);
}

AttentionSizes SizesOf(const AttentionShape& shape) {
  return {static_cast<int>(shape.queries),
          static_cast<int>(shape.keys),
          static_cast<int>(shape.query_offset),
          static_cast<int>(shape.heads),
          static_cast<int>(shape.kv_heads),
          static_cast<int>(shape.head_size),
          shape.q_stride,
          shape.kv_stride,
          shape.out_stride,
          shape.causal,
          1.0F / std::sqrt(static_cast<float>(shape.head_size))};
}

Grid GridOf(const AttentionShape& shape, std::int64_t rows, std::int64_t heads,
            std::size_t shared_bytes) {
  return {(rows + kOwnRows - 1) / kOwnRows, heads, shape.batch, kTileThreads,
          shared_bytes};
}

// Tiles are loaded 16 bytes at a time.
bool FitsTiles(const AttentionShape& shape,
               std::initializer_list<Tensor> tensors) {
  bool fits = shape.head_size <= 128 && shape.head_size % 8 == 0 &&
              shape.q_stride % 8 == 0 && shape.kv_stride % 8 == 0 &&
              shape.out_stride % 8 == 0;
  for (const Tensor& tensor : tensors) {
    fits = fits && tensor.width == 2 &&
           reinterpret_cast<std::uintptr_t>(tensor.data) % 16 == 0;
  }
  return fits;
}

template <int kSize>
void ForwardOf(const AttentionArgs& args, cudaStream_t stream) {
  const AttentionShape& shape = args.shape;
  Launch(ForwardKernel<kSize>,
         GridOf(shape, shape.queries, shape.heads,
                Tile<kSize>::Bytes(kOwnRows + 2 * 64)),
         stream, SizesOf(shape), args);
}

template <int kSize>
void BackwardOf(const AttentionArgs& args, cudaStream_t stream) {
  constexpr std::size_t kShared = Tile<kSize>::Bytes(2 * kOwnRows + 2 * 32);
  const AttentionShape& shape = args.shape;
  Launch(QueryGradientKernel<kSize>,
         GridOf(shape, shape.queries, shape.heads, kShared), stream,
         SizesOf(shape), args);
  Launch(KeyGradientKernel<kSize>,
         GridOf(shape, shape.keys, shape.kv_heads, kShared), stream,
         SizesOf(shape), args);
}

}  // namespace

std::int64_t AttentionStatisticsBytes(const AttentionShape& shape) {
  return shape.batch * shape.heads * shape.queries *
         static_cast<std::int64_t>(sizeof(float));
}

void AttentionForward(const AttentionArgs& args, cudaStream_t stream) {
  const AttentionShape& shape = args.shape;
  if (!FitsTiles(shape, {args.q, args.k, args.v,
                         args.out.empty() ? args.q : args.out})) {
    PlainAttentionForward(args, SizesOf(shape), stream);
  } else if (shape.head_size <= 64) {
    ForwardOf<64>(args, stream);
  } else {
    ForwardOf<128>(args, stream);
  }
}

void AttentionBackward(const AttentionArgs& args, cudaStream_t stream) {
  const AttentionShape& shape = args.shape;
  AttentionDeltas(args, SizesOf(shape), stream);
  if (!FitsTiles(shape, {args.dout, args.q, args.k, args.v, args.dq, args.dk,
                         args.dv, args.out})) {
    PlainAttentionBackward(args, SizesOf(shape), stream);
  } else if (shape.head_size <= 64) {
    BackwardOf<64>(args, stream);
  } else {
    BackwardOf<128>(args, stream);
  }
}

}  // namespace trainer::cuda
