#include "trainer/attention_cpu.h"

#include <algorithm>
#include <cmath>

#include "trainer/gemm_cpu.h"
#include "trainer/row_kernels.h"

namespace trainer {

template <typename T>
template <typename Visit>
void CpuAttention<T>::ForEachBlock(Visit visit) const {
  for (std::int64_t b = 0; b < s_.batch; ++b) {
    for (std::int64_t h = 0; h < s_.heads; ++h) {
      for (std::int64_t i = 0; i < s_.queries; i += kBlock) {
        const std::int64_t rows = std::min(kBlock, s_.queries - i);
        const std::int64_t last = s_.query_offset + i + rows;
        visit(Block{b, h, i, rows,
                    s_.causal ? std::min(s_.keys, last) : s_.keys});
      }
    }
  }
}

// p [rows, s.keys] = softmax(q k^T / sqrt(head_size)), masked if causal.
template <typename T>
void CpuAttention<T>::Probabilities(const Block& block, const T* q, const T* k,
                                    T* p) const {
  CpuGemm({.transpose_b = true,
           .m = block.rows,
           .n = block.keys,
           .k = s_.head_size,
           .lda = s_.q_stride,
           .ldb = s_.kv_stride,
           .ldc = s_.keys},
          q, k, p);
  const T scale = T(1) / std::sqrt(static_cast<T>(s_.head_size));
  for (std::int64_t i = 0; i < block.rows; ++i) {
    const std::int64_t seen =
        s_.causal ? std::min(block.keys, s_.query_offset + block.begin + i + 1)
                  : block.keys;
    SoftmaxRow(seen, block.keys, scale, p + i * s_.keys);
  }
}

template <typename T>
void CpuAttention<T>::Forward(const T* q, const T* k, const T* v, T* out,
                              T* kept, T* scratch) const {
  const std::int64_t group = s_.heads / s_.kv_heads;
  ForEachBlock([&](const Block& block) {
    const std::int64_t row = block.batch * s_.queries + block.begin;
    const std::int64_t key = block.batch * s_.keys * s_.kv_stride +
                             block.head / group * s_.head_size;
    T* p = kept == nullptr
               ? scratch
               : kept + ((block.batch * s_.heads + block.head) * s_.queries +
                         block.begin) *
                            s_.keys;
    Probabilities(block, q + row * s_.q_stride + block.head * s_.head_size,
                  k + key, p);
    CpuGemm({.m = block.rows,
             .n = s_.head_size,
             .k = block.keys,
             .lda = s_.keys,
             .ldb = s_.kv_stride,
             .ldc = s_.out_stride},
            p, v + key, out + row * s_.out_stride + block.head * s_.head_size);
  });
}

template <typename T>
void CpuAttention<T>::Backward(const T* dout, const T* q, const T* k,
                               const T* v, const T* kept, T* scratch, T* dq,
                               T* dk, T* dv) const {
  const std::int64_t group = s_.heads / s_.kv_heads;
  const T scale = T(1) / std::sqrt(static_cast<T>(s_.head_size));
  for (std::int64_t row = 0; row < s_.batch * s_.keys; ++row) {
    std::fill_n(dk + row * s_.kv_stride, s_.kv_heads * s_.head_size, T(0));
    std::fill_n(dv + row * s_.kv_stride, s_.kv_heads * s_.head_size, T(0));
  }
  ForEachBlock([&](const Block& block) {
    const std::int64_t row = block.batch * s_.queries + block.begin;
    const std::int64_t key = block.batch * s_.keys * s_.kv_stride +
                             block.head / group * s_.head_size;
    const std::int64_t query = row * s_.q_stride + block.head * s_.head_size;
    const T* d = dout + row * s_.out_stride + block.head * s_.head_size;
    T* ds = scratch + kBlock * s_.keys;
    const T* p = scratch;
    if (kept == nullptr) {
      Probabilities(block, q + query, k + key, scratch);
    } else {
      p = kept +
          ((block.batch * s_.heads + block.head) * s_.queries + block.begin) *
              s_.keys;
    }
    GemmShape weights{.transpose_a = true,
                      .m = block.keys,
                      .n = s_.head_size,
                      .k = block.rows,
                      .lda = s_.keys,
                      .ldb = s_.out_stride,
                      .ldc = s_.kv_stride,
                      .beta = 1.0};
    CpuGemm(weights, p, d, dv + key);  // dv += p^T dout
    CpuGemm({.transpose_b = true,
             .m = block.rows,
             .n = block.keys,
             .k = s_.head_size,
             .lda = s_.out_stride,
             .ldb = s_.kv_stride,
             .ldc = s_.keys},
            d, v + key, ds);
    for (std::int64_t i = 0; i < block.rows; ++i) {
      SoftmaxGradientRow(block.keys, scale, p + i * s_.keys, ds + i * s_.keys);
    }
    CpuGemm({.m = block.rows,
             .n = s_.head_size,
             .k = block.keys,
             .lda = s_.keys,
             .ldb = s_.kv_stride,
             .ldc = s_.q_stride},
            ds, k + key, dq + query);
    weights.ldb = s_.q_stride;
    CpuGemm(weights, ds, q + query, dk + key);  // dk += ds^T q
  });
}

template class CpuAttention<float>;
template class CpuAttention<double>;

}  // namespace trainer
