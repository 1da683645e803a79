// What comes after the last block: a norm, BERT's transform (dense layer, GELU,
// norm), logits of the vocabulary or of classes, which the tp ranks share, and
// their cross entropy.
//
// Note: the transform has the place and the size of the pooler in the model's
// description; the norm and the bias of BERT's logits come in addition. A
// classifier reads the class token of an image.

#include <algorithm>
#include <optional>
#include <utility>

#include "trainer/unit.h"

namespace trainer {
namespace {

enum {
  kHeadInput,
  kHeadNormal,
  kHeadStatistics,
  kHeadDense,
  kHeadAct,
  kHeadActStatistics,
  kHeadFinal,
  kHeadLogits
};

class Head : public Unit {
 public:
  Head(const Context& context, ParameterStore& store, Parameter* table)
      : context_(context),
        cols_(context.model.hidden_size),
        labels_(context.model.classes > 0 ? context.model.classes
                                          : context.model.vocab_size) {
    const trials::Model& model = context.model;
    if (model.final_norm) {
      norm_.emplace(context, store, "head.norm");
    }
    if (model.pooler) {
      const GradientShare shard = ShardShare(context);
      transform_ =
          store.Add(shard, {RowSplit("head.transform", cols_, cols_, 1, 0)});
      transform_bias_ =
          store.Add(shard, {Vector("head.transform.bias", cols_)});
      transform_norm_.emplace(context, store, "head.transform.norm");
    }
    const bool tied = model.classes == 0 && model.tied_embeddings;
    const Piece piece = VocabularySplit(
        tied ? "embedding.tokens" : "head.logits", labels_, cols_, context);
    first_ = piece.row_begin;
    stride_ = piece.rows;
    valid_ = std::clamp<std::int64_t>(labels_ - first_, 0, stride_);
    if (tied && table != nullptr) {
      weight_ = table;
      store.Share(table);
    } else {
      weight_ = store.Add(tied ? GradientShare::kTied : GradientShare::kDense,
                          {piece});
    }
    if (model.head_bias || model.classes > 0 || model.pooler) {
      bias_ =
          store.Add(GradientShare::kDense,
                    {VocabularySplit("head.logits.bias", labels_, 1, context)});
    }
  }

  Array Forward(const Batch& batch, Array input, Saved& saved) override {
    const Context& c = context_;
    const std::int64_t shard = c.shard_tokens;
    saved.arrays.resize(8);
    saved.arrays[kHeadInput] = std::move(input);
    if (norm_.has_value()) {
      saved.arrays[kHeadNormal] = c.New(shard * cols_);
      saved.arrays[kHeadStatistics] = c.NewWide(2 * shard);
      norm_->Forward(c, saved[kHeadInput], saved[kHeadNormal],
                     saved[kHeadStatistics]);
    }
    if (transform_ != nullptr) {
      saved.arrays[kHeadDense] = c.New(shard * cols_);
      saved.arrays[kHeadAct] = c.New(shard * cols_);
      saved.arrays[kHeadFinal] = c.New(shard * cols_);
      saved.arrays[kHeadActStatistics] = c.NewWide(2 * shard);
      c.Linear(shard, cols_, cols_, Normalized(saved), transform_->weight,
               saved[kHeadDense], transform_bias_->weight);
      c.device.ActivationForward({.kind = Activation::kGelu,
                                  .rows = shard,
                                  .cols = cols_,
                                  .x = saved[kHeadDense],
                                  .y = saved[kHeadAct]});
      transform_norm_->Forward(c, saved[kHeadAct], saved[kHeadFinal],
                               saved[kHeadActStatistics]);
    }
    const Array all = c.GatherTokens(Features(saved));
    const Array rows = SelectRows(Context::All(all, Features(saved)));
    saved.arrays[kHeadLogits] = c.New(Rows() * stride_);
    c.Linear(Rows(), cols_, stride_,
             Context::All(rows, Context::All(all, Features(saved))),
             weight_->weight, saved[kHeadLogits],
             bias_ == nullptr ? Tensor{} : bias_->weight);
    (void)batch;
    return {};
  }

  Array Backward(const Batch& batch, Array /*doutput*/, Saved& saved) override {
    const Context& c = context_;
    LossGradient(batch, saved[kHeadLogits]);
    Array dfeatures = LogitsBackward(saved);
    saved.arrays[kHeadLogits].Reset();
    if (transform_ != nullptr) {
      dfeatures = TransformBackward(std::move(dfeatures), saved);
    }
    if (!norm_.has_value()) {
      saved = {};
      return dfeatures;
    }
    Array dx = c.New(dfeatures.get().size);
    c.device.Zero(dx.get());
    norm_->Backward(c, dfeatures.get(), saved[kHeadInput],
                    saved[kHeadStatistics], dx.get());
    saved = {};
    return dx;
  }

 private:
  [[nodiscard]] Tensor Normalized(const Saved& saved) const {
    return norm_.has_value() ? saved[kHeadNormal] : saved[kHeadInput];
  }
  [[nodiscard]] Tensor Features(const Saved& saved) const {
    return transform_ != nullptr ? saved[kHeadFinal] : Normalized(saved);
  }
  [[nodiscard]] bool selects() const { return context_.model.classes > 0; }
  // Of the logits: all tokens, or the class token of each image.
  [[nodiscard]] std::int64_t Rows() const {
    if (!selects()) {
      return context_.tokens;
    }
    return context_.offset == 0 ? context_.sequences : 0;
  }

  [[nodiscard]] Array SelectRows(Tensor all) const {
    if (!selects()) {
      return {};
    }
    Array rows = context_.New(std::max<std::int64_t>(1, Rows()) * cols_,
                              Region::kWorkspace);
    for (std::int64_t i = 0; i < Rows(); ++i) {
      context_.device.Copy(all.Slice(i * context_.length * cols_, cols_),
                           rows.get().Slice(i * cols_, cols_));
    }
    return rows;
  }
  [[nodiscard]] Array SpreadRows(Array rows) const {
    if (!selects()) {
      return rows;
    }
    Array all = context_.New(context_.tokens * cols_);
    context_.device.Zero(all.get());
    for (std::int64_t i = 0; i < Rows(); ++i) {
      context_.device.Copy(rows.get().Slice(i * cols_, cols_),
                           all.get().Slice(i * context_.length * cols_, cols_));
    }
    return all;
  }

  // The loss, and its gradient in place of the logits.
  void LossGradient(const Batch& batch, Tensor logits) const {
    const Context& c = context_;
    const std::int64_t rows = Rows();
    Array labels;  // of the rows
    Tensor label = batch.labels.get();
    if (selects()) {
      labels =
          c.NewIndices(std::max<std::int64_t>(1, rows), Region::kWorkspace);
      for (std::int64_t i = 0; i < rows; ++i) {
        c.device.Copy(label.Slice(i * c.length, 1), labels.get().Slice(i, 1));
      }
      label = labels.get();
    }
    const Array maxima = c.NewWide(rows, Region::kWorkspace);
    const Array sums = c.NewWide(2 * rows, Region::kWorkspace);
    const LossArgs args{.rows = rows,
                        .cols = valid_,
                        .stride = stride_,
                        .first = first_,
                        .scale = c.loss_scale,
                        .logits = logits,
                        .labels = label,
                        .maxima = maxima.get(),
                        .sums = sums.get(),
                        .loss = c.loss};
    c.device.LossMaxima(args);
    if (c.tp != nullptr && rows > 0) {
      Wait(c.tp->AllReduce(maxima.get(), Reduction::kMax));
    }
    c.device.LossSums(args);
    if (c.tp != nullptr && rows > 0) {
      Wait(c.tp->AllReduce(sums.get(), Reduction::kSum));
    }
    c.device.LossBackward(args);
  }

  [[nodiscard]] Array LogitsBackward(const Saved& saved) const {
    const Context& c = context_;
    const Array all = c.GatherTokens(Features(saved));
    const Tensor features = Context::All(all, Features(saved));
    const Array rows = SelectRows(features);
    if (bias_ != nullptr) {
      c.device.BiasBackward(Rows(), stride_, saved[kHeadLogits],
                            bias_->gradient);
    }
    Array dfeatures = c.New(std::max<std::int64_t>(1, Rows()) * cols_);
    c.LinearBackward(Rows(), cols_, stride_, saved[kHeadLogits],
                     Context::All(rows, features), weight_->weight,
                     weight_->gradient, dfeatures.get());
    return c.ReduceTokens(SpreadRows(std::move(dfeatures)));
  }

  [[nodiscard]] Array TransformBackward(Array dy, const Saved& saved) const {
    const Context& c = context_;
    const std::int64_t rows = c.shard_tokens;
    const Array dact = c.New(rows * cols_, Region::kWorkspace);
    c.device.Zero(dact.get());
    transform_norm_->Backward(c, dy.get(), saved[kHeadAct],
                              saved[kHeadActStatistics], dact.get());
    Array ddense = c.New(rows * cols_, Region::kWorkspace);
    c.device.ActivationBackward({.kind = Activation::kGelu,
                                 .rows = rows,
                                 .cols = cols_,
                                 .x = saved[kHeadDense],
                                 .dy = dact.get(),
                                 .dx = ddense.get()});
    c.device.BiasBackward(rows, cols_, ddense.get(), transform_bias_->gradient);
    c.LinearBackward(rows, cols_, cols_, ddense.get(), Normalized(saved),
                     transform_->weight, transform_->gradient, dy.get());
    return dy;
  }

  const Context& context_;
  std::int64_t cols_, labels_;
  std::int64_t first_ = 0, stride_ = 0, valid_ = 0;  // labels of this rank
  std::optional<Norm> norm_, transform_norm_;
  Parameter* transform_ = nullptr;
  Parameter* transform_bias_ = nullptr;
  Parameter* weight_ = nullptr;
  Parameter* bias_ = nullptr;
};

}  // namespace

std::unique_ptr<Unit> MakeHead(const Context& context, ParameterStore& store,
                               Parameter* table) {
  return std::make_unique<Head>(context, store, table);
}

}  // namespace trainer
