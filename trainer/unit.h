// The interfaces of the parts of a model.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trainer/context.h"
#include "trainer/parameters.h"

namespace trainer {

// What a forward keeps for its backward, by the constants of the unit.
struct Saved {
  std::vector<Array> arrays;
  std::vector<std::vector<std::int64_t>> counts;  // of mixtures of experts
  std::vector<Saved> parts;

  [[nodiscard]] Tensor operator[](int i) const { return arrays[i].get(); }
};

// An embedding, a block or a head: what is recomputed, acquired and released as
// a whole. Activations between units are the rank's shard [shard_tokens,
// hidden] of a microbatch.
class Unit {
 public:
  virtual ~Unit() = default;
  // The output; of the head, nothing.
  virtual Array Forward(const Batch& batch, Array input, Saved& saved) = 0;
  // The gradient of the input; of an embedding, nothing. Adds to the gradients
  // of the parameters and, in the head, to the loss. Frees what was saved.
  virtual Array Backward(const Batch& batch, Array doutput, Saved& saved) = 0;
};

// What is between a norm and a residual connection: attention or a feed-forward
// layer. It has all tokens of a microbatch, and its result is this rank's term
// of a sum over the tp ranks.
class Core {
 public:
  virtual ~Core() = default;
  virtual Array Forward(Tensor x, Saved& saved) = 0;
  virtual Array Backward(Tensor dy, Tensor x, Saved& saved) = 0;  // dx
  // Added once, after the sum; null if there is none.
  [[nodiscard]] virtual const Parameter* output_bias() const = 0;
};

// Sizes and names that the parts share.
constexpr double kInitialDeviation = 0.02;
[[nodiscard]] inline Piece Vector(std::string name, std::int64_t size,
                                  double value = 0.0) {
  return {.name = std::move(name),
          .cols = size,
          .global_cols = size,
          .shift = value};
}
// Rows index * rows / parts ... of a matrix (or bias, cols = 1) with rows rows.
[[nodiscard]] inline Piece RowSplit(std::string name, std::int64_t rows,
                                    std::int64_t cols, int parts, int index,
                                    double scale = kInitialDeviation) {
  const std::int64_t own = (rows + parts - 1) / parts;
  return {.name = std::move(name),
          .rows = own,
          .cols = cols,
          .row_begin = own * index,
          .global_rows = rows,
          .global_cols = cols,
          .scale = scale};
}
// This rank's rows of the vocabulary, or of classes, which are the columns of
// its logits.
[[nodiscard]] inline Piece VocabularySplit(std::string name, std::int64_t rows,
                                           std::int64_t cols,
                                           const Context& context) {
  const Mesh& mesh = context.mesh;
  const std::int64_t parts = context.device.row_multiple() * mesh.tp;
  const std::int64_t padded = (rows + parts - 1) / parts * parts;
  Piece piece = RowSplit(std::move(name), padded, cols, mesh.tp, mesh.tp_index);
  piece.global_rows = rows;
  return piece;
}
[[nodiscard]] inline Piece ColumnSplit(std::string name, std::int64_t rows,
                                       std::int64_t cols, int parts,
                                       int index) {
  return {.name = std::move(name),
          .rows = rows,
          .cols = cols / parts,
          .col_begin = cols / parts * index,
          .global_rows = rows,
          .global_cols = cols,
          .scale = kInitialDeviation};
}

// The share of parameters that are applied to a shard of the tokens.
[[nodiscard]] inline GradientShare ShardShare(const Context& context) {
  return context.splits_sequence() ? GradientShare::kPartial
                                   : GradientShare::kDense;
}

// A LayerNorm or RMSNorm with its parameters.
struct Norm {
  Norm(const Context& context, ParameterStore& store, const std::string& name);
  void Forward(const Context& context, Tensor x, Tensor y,
               Tensor statistics) const;
  // dx +=
  void Backward(const Context& context, Tensor dy, Tensor x, Tensor statistics,
                Tensor dx) const;
  NormKind kind;
  std::int64_t cols;
  Parameter* scale;
  Parameter* shift;  // null for kRms
};

[[nodiscard]] std::unique_ptr<Core> MakeAttention(const Context& context,
                                                  ParameterStore& store,
                                                  const std::string& name);
[[nodiscard]] std::unique_ptr<Core> MakeMlp(const Context& context,
                                            ParameterStore& store,
                                            const std::string& name);
[[nodiscard]] std::unique_ptr<Core> MakeExperts(const Context& context,
                                                ParameterStore& store,
                                                const std::string& name);
[[nodiscard]] std::unique_ptr<Unit> MakeBlock(const Context& context,
                                              ParameterStore& store, int layer);
[[nodiscard]] std::unique_ptr<Unit> MakeEmbedding(const Context& context,
                                                  ParameterStore& store,
                                                  Parameter** table);
// `table`: that of an embedding on the same rank, for tied weights; else null.
[[nodiscard]] std::unique_ptr<Unit> MakeHead(const Context& context,
                                             ParameterStore& store,
                                             Parameter* table);

}  // namespace trainer
