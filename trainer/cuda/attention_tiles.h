// What the kernels of attention share: sizes, tiles in shared memory and their
// products on tensor cores.

#pragma once

#include "trainer/cuda/numeric.h"

namespace trainer::cuda {

// AttentionShape with what kernels need of it.
struct AttentionSizes {
  int queries, keys, query_offset, heads, kv_heads, head_size;
  std::int64_t q_stride, kv_stride, out_stride;
  bool causal;
  float scale;  // of scores: 1 / sqrt(head_size)

  // The keys that queries before `query_end` attend to.
  __device__ __forceinline__ int KeyEnd(int query_end) const {
    const int seen = query_offset + query_end;
    return causal && seen < keys ? seen : keys;
  }
  __device__ __forceinline__ bool Sees(int query, int key) const {
    return query < queries && key < keys &&
           (!causal || key <= query_offset + query);
  }
};

// A block has four warps, each of which owns 16 rows.
inline constexpr int kTileWarps = 4;
inline constexpr int kTileThreads = 32 * kTileWarps;
inline constexpr int kOwnRows = 16 * kTileWarps;

// Rows of kSize bf16 in shared memory. The padding spreads the rows over banks.
template <int kSize>
struct Tile {
  static constexpr int kStride = kSize + 8;
  static constexpr std::size_t Bytes(int rows) {
    return static_cast<std::size_t>(rows) * kStride * sizeof(Bf16);
  }
  Bf16* data;

  __device__ __forceinline__ Bf16* Row(int row) const {
    return data + row * kStride;
  }

  // Rows first .. first + rows of a matrix in global memory; zeros beyond
  // `valid` rows and `columns` columns (a multiple of 8).
  __device__ void Load(const Bf16* from, std::int64_t stride, int first,
                       int rows, int valid, int columns) const {
    constexpr int kPieces = kSize / 8;  // of 16 bytes
    for (int i = static_cast<int>(threadIdx.x); i < rows * kPieces;
         i += kTileThreads) {
      const int row = i / kPieces;
      const int col = i % kPieces * 8;
      uint4 value{0, 0, 0, 0};
      if (first + row < valid && col < columns) {
        value = *reinterpret_cast<const uint4*>(from + (first + row) * stride +
                                                col);
      }
      *reinterpret_cast<uint4*>(Row(row) + col) = value;
    }
  }
};

// sums[n-tile] += rows first .. first + 16 of `a` times rows 0 .. 8 kTiles of
// `b`, transposed.
template <int kSize, int kTiles>
__device__ __forceinline__ void MultiplyTransposed(Tile<kSize> a, int first,
                                                   Tile<kSize> b,
                                                   float (&sums)[kTiles][4]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int matrix = lane / 8;
  for (int k = 0; k < kSize; k += 16) {
    std::uint32_t rows[4];
    LoadMatrices<false>(
        a.Row(first + lane % 8 + matrix % 2 * 8) + k + matrix / 2 * 8, rows);
#pragma unroll
    for (int n = 0; n < kTiles; n += 2) {
      std::uint32_t columns[4];
      LoadMatrices<false>(
          b.Row(n * 8 + lane % 8 + matrix / 2 * 8) + k + matrix % 2 * 8,
          columns);
      MultiplyAdd(rows, columns[0], columns[1], sums[n]);
      MultiplyAdd(rows, columns[2], columns[3], sums[n + 1]);
    }
  }
}

// sums[n-tile] += weights (16 x 8 kTiles, in the layout of a product's result)
// times rows 0 .. 8 kTiles of `b`.
template <int kSize, int kTiles>
__device__ __forceinline__ void MultiplyWeights(
    const float (&weights)[kTiles][4], Tile<kSize> b,
    float (&sums)[kSize / 8][4]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int matrix = lane / 8;
#pragma unroll
  for (int k = 0; k < kTiles; k += 2) {
    const std::uint32_t rows[4] = {Pack(weights[k][0], weights[k][1]),
                                   Pack(weights[k][2], weights[k][3]),
                                   Pack(weights[k + 1][0], weights[k + 1][1]),
                                   Pack(weights[k + 1][2], weights[k + 1][3])};
#pragma unroll
    for (int n = 0; n < kSize / 8; n += 2) {
      std::uint32_t columns[4];
      LoadMatrices<true>(
          b.Row(k * 8 + lane % 8 + matrix % 2 * 8) + n * 8 + matrix / 2 * 8,
          columns);
      MultiplyAdd(rows, columns[0], columns[1], sums[n]);
      MultiplyAdd(rows, columns[2], columns[3], sums[n + 1]);
    }
  }
}

// Writes the 16 x kSize result of a warp, times a factor for its upper and its
// lower eight rows, to rows `first`, ... of a matrix.
template <int kSize>
__device__ __forceinline__ void Store(const float (&sums)[kSize / 8][4],
                                      float upper, float lower, Bf16* to,
                                      std::int64_t stride, int first, int valid,
                                      int columns) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int row = first + lane / 4;
#pragma unroll
  for (int n = 0; n < kSize / 8; ++n) {
    const int col = n * 8 + lane % 4 * 2;
    if (col < columns && row < valid) {
      *reinterpret_cast<std::uint32_t*>(to + row * stride + col) =
          Pack(sums[n][0] * upper, sums[n][1] * upper);
    }
    if (col < columns && row + 8 < valid) {
      *reinterpret_cast<std::uint32_t*>(to + (row + 8) * stride + col) =
          Pack(sums[n][2] * lower, sums[n][3] * lower);
    }
  }
}

}  // namespace trainer::cuda
