// What comes before the first block: token embeddings, split over the tp ranks
// by rows of the vocabulary, or a linear map of patches; positions; BERT's
// token types (all tokens have type 0) and norm.

#include <algorithm>
#include <optional>
#include <utility>

#include "trainer/unit.h"

namespace trainer {
namespace {

enum { kEmbeddingSum, kEmbeddingStatistics };

class Embedding : public Unit {
 public:
  Embedding(const Context& context, ParameterStore& store, Parameter** table)
      : context_(context), cols_(context.model.hidden_size) {
    const trials::Model& model = context.model;
    const GradientShare shard = ShardShare(context);
    if (model.patch_size > 0) {
      patches_ = store.Add(shard, {RowSplit("embedding.patches", cols_,
                                            model.patch_size, 1, 0)});
      patches_bias_ =
          store.Add(shard, {Vector("embedding.patches.bias", cols_)});
      class_token_ =
          store.Add(shard, {RowSplit("embedding.class", 1, cols_, 1, 0)});
    } else {
      const Piece piece =
          VocabularySplit("embedding.tokens", model.vocab_size, cols_, context);
      first_ = piece.row_begin;
      rows_ = piece.rows;
      table_ = store.Add(
          model.tied_embeddings ? GradientShare::kTied : GradientShare::kDense,
          {piece});
      *table = table_;
    }
    if (model.max_positions > 0) {
      positions_ = store.Add(
          shard,
          {RowSplit("embedding.positions", model.max_positions, cols_, 1, 0)});
    }
    if (model.token_types > 0) {
      types_ = store.Add(
          shard, {RowSplit("embedding.types", model.token_types, cols_, 1, 0)});
    }
    if (model.embedding_norm) {
      norm_.emplace(context, store, "embedding.norm");
    }
  }

  Array Forward(const Batch& batch, Array /*input*/, Saved& saved) override {
    const Context& c = context_;
    Array x = patches_ != nullptr ? Patches(batch) : Tokens(batch);
    const std::int64_t rows = c.shard_tokens;
    if (positions_ != nullptr) {
      c.device.AddPositions(Shard(), cols_, positions_->weight, x.get());
    }
    if (types_ != nullptr) {
      c.device.AddBias(rows, cols_, types_->weight.Slice(0, cols_), x.get());
    }
    if (!norm_.has_value()) {
      return x;
    }
    Array y = c.New(x.get().size);
    Array statistics = c.NewWide(2 * rows);
    norm_->Forward(c, x.get(), y.get(), statistics.get());
    saved.arrays.push_back(std::move(x));
    saved.arrays.push_back(std::move(statistics));
    return y;
  }

  Array Backward(const Batch& batch, Array dy, Saved& saved) override {
    const Context& c = context_;
    if (norm_.has_value()) {
      Array dx = c.New(dy.get().size);
      c.device.Zero(dx.get());
      norm_->Backward(c, dy.get(), saved[kEmbeddingSum],
                      saved[kEmbeddingStatistics], dx.get());
      dy = std::move(dx);
      saved = {};
    }
    if (types_ != nullptr) {
      c.device.BiasBackward(c.shard_tokens, cols_, dy.get(),
                            types_->gradient.Slice(0, cols_));
    }
    if (positions_ != nullptr) {
      c.device.PositionsBackward(Shard(), cols_, dy.get(),
                                 positions_->gradient);
    }
    if (patches_ != nullptr) {
      PatchesBackward(batch, dy.get());
      return {};
    }
    const Array all = c.GatherTokens(dy.get());
    c.device.EmbeddingBackward({.rows = c.tokens,
                                .cols = cols_,
                                .first = first_,
                                .table_rows = rows_,
                                .tokens = batch.tokens.get(),
                                .dout = Context::All(all, dy.get()),
                                .dtable = table_->gradient});
    return {};
  }

 private:
  [[nodiscard]] Positions Shard() const {
    return {context_.shard_begin, context_.shard_tokens, context_.length,
            context_.offset};
  }

  [[nodiscard]] Array Tokens(const Batch& batch) const {
    const Context& c = context_;
    Array x = c.New(c.tokens * cols_);
    c.device.EmbeddingForward({.rows = c.tokens,
                               .cols = cols_,
                               .first = first_,
                               .table_rows = rows_,
                               .tokens = batch.tokens.get(),
                               .table = table_->weight,
                               .out = x.get()});
    return c.ReduceTokens(std::move(x));
  }

  // Calls visit(begin, rows, is_class) for the runs of rows of the shard that
  // are a class token or patches of one sequence.
  template <typename Visit>
  void ForEachRun(Visit visit) const {
    const Context& c = context_;
    const std::int64_t end = c.shard_begin + c.shard_tokens;
    for (std::int64_t t = c.shard_begin; t < end;) {
      const std::int64_t place = t % c.length;
      const bool is_class = c.offset + place == 0;
      const std::int64_t rows =
          is_class ? 1 : std::min(c.length - place, end - t);
      visit((t - c.shard_begin) * cols_, rows, is_class);
      t += rows;
    }
  }
  [[nodiscard]] Tensor OwnPatches(const Batch& batch) const {
    const std::int64_t size = context_.model.patch_size;
    return batch.patches.get().Slice(context_.shard_begin * size,
                                     context_.shard_tokens * size);
  }
  // The patch of a class token is 0.
  [[nodiscard]] Array Patches(const Batch& batch) const {
    const Context& c = context_;
    Array x = c.New(c.shard_tokens * cols_);
    c.Linear(c.shard_tokens, c.model.patch_size, cols_, OwnPatches(batch),
             patches_->weight, x.get());
    ForEachRun([&](std::int64_t at, std::int64_t rows, bool is_class) {
      c.device.AddBias(rows, cols_,
                       (is_class ? class_token_ : patches_bias_)->weight,
                       x.get().Slice(at, rows * cols_));
    });
    return x;
  }
  void PatchesBackward(const Batch& batch, Tensor dx) const {
    const Context& c = context_;
    ForEachRun([&](std::int64_t at, std::int64_t rows, bool is_class) {
      c.device.BiasBackward(
          rows, cols_, dx.Slice(at, rows * cols_),
          (is_class ? class_token_ : patches_bias_)->gradient);
    });
    c.device.Gemm({.transpose_a = true,
                   .m = cols_,
                   .n = c.model.patch_size,
                   .k = c.shard_tokens,
                   .lda = cols_,
                   .ldb = c.model.patch_size,
                   .ldc = c.model.patch_size,
                   .beta = 1.0},
                  dx, OwnPatches(batch), patches_->gradient, {});
  }

  const Context& context_;
  std::int64_t cols_;
  std::int64_t first_ = 0, rows_ = 0;  // of the vocabulary on this rank
  Parameter* table_ = nullptr;
  Parameter* patches_ = nullptr;
  Parameter* patches_bias_ = nullptr;
  Parameter* class_token_ = nullptr;
  Parameter* positions_ = nullptr;
  Parameter* types_ = nullptr;
  std::optional<Norm> norm_;
};

}  // namespace

std::unique_ptr<Unit> MakeEmbedding(const Context& context,
                                    ParameterStore& store, Parameter** table) {
  return std::make_unique<Embedding>(context, store, table);
}

}  // namespace trainer
