// Attention on the CPU, in blocks of queries.

#pragma once

#include "trainer/device.h"

namespace trainer {

// Scores of a block of queries are computed at a time, and only up to the last
// key that a causal block sees. `kept` holds the probabilities [batch, heads,
// queries, keys] or is null; scratch holds two blocks of scores.
template <typename T>
class CpuAttention {
 public:
  explicit CpuAttention(const AttentionShape& shape) : s_(shape) {}
  void Forward(const T* q, const T* k, const T* v, T* out, T* kept,
               T* scratch) const;
  void Backward(const T* dout, const T* q, const T* k, const T* v,
                const T* kept, T* scratch, T* dq, T* dk, T* dv) const;

  static constexpr std::int64_t kBlock = 64;  // queries
  [[nodiscard]] static std::int64_t Kept(const AttentionShape& shape) {
    return shape.batch * shape.heads * shape.queries * shape.keys;
  }
  [[nodiscard]] static std::int64_t Scratch(const AttentionShape& shape) {
    return 2 * kBlock * shape.keys;
  }

 private:
  // The first query, the number of queries and of keys of a block.
  struct Block {
    std::int64_t batch, head, begin, rows, keys;
  };
  template <typename Visit>
  void ForEachBlock(Visit visit) const;
  void Probabilities(const Block& block, const T* q, const T* k, T* p) const;

  AttentionShape s_;
};

}  // namespace trainer
