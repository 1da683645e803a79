// Multi-head attention with grouped queries. Heads are split over the tp ranks.
// Context parallelism gathers keys and values of all cp ranks.

#include <utility>

#include "trainer/unit.h"

namespace trainer {
namespace {

// Saved: queries (of one cp rank with keys and values behind them), keys and
// values of all tokens (cp > 1), the output before its projection, the kept
// probabilities.
enum { kQuery, kKeys, kOut, kKept };

class Attention : public Core {
 public:
  Attention(const Context& context, ParameterStore& store,
            const std::string& name)
      : context_(context),
        hidden_(context.model.hidden_size),
        heads_(context.model.attention_heads / context.mesh.tp),
        kv_heads_(context.model.kv_heads / context.mesh.tp),
        head_size_(context.model.head_size),
        q_(heads_ * head_size_),
        kv_(kv_heads_ * head_size_) {
    const trials::Model& model = context.model;
    const int tp = context.mesh.tp;
    const int index = context.mesh.tp_index;
    const std::int64_t all_q = model.attention_heads * head_size_;
    const std::int64_t all_kv = model.kv_heads * head_size_;
    weight_ = store.Add(GradientShare::kDense,
                        {RowSplit(name + ".q", all_q, hidden_, tp, index),
                         RowSplit(name + ".k", all_kv, hidden_, tp, index),
                         RowSplit(name + ".v", all_kv, hidden_, tp, index)});
    if (model.attention_bias) {
      bias_ = store.Add(GradientShare::kDense,
                        {RowSplit(name + ".q.bias", all_q, 1, tp, index),
                         RowSplit(name + ".k.bias", all_kv, 1, tp, index),
                         RowSplit(name + ".v.bias", all_kv, 1, tp, index)});
    }
    out_weight_ =
        store.Add(GradientShare::kDense,
                  {ColumnSplit(name + ".out", hidden_, all_q, tp, index)});
    if (model.output_bias) {
      out_bias_ =
          store.Add(ShardShare(context), {Vector(name + ".out.bias", hidden_)});
    }
  }

  [[nodiscard]] const Parameter* output_bias() const override {
    return out_bias_;
  }

  Array Forward(Tensor x, Saved& saved) override {
    const Context& c = context_;
    saved.arrays.resize(4);
    if (c.cp == nullptr) {
      saved.arrays[kQuery] = Project(x, 0, q_ + 2 * kv_);
      Rotate(false, q_ + 2 * kv_, heads_ + kv_heads_, saved[kQuery]);
    } else {
      saved.arrays[kQuery] = Project(x, 0, q_);
      Rotate(false, q_, heads_, saved[kQuery]);
      Array own = Project(x, q_, 2 * kv_);
      Rotate(false, 2 * kv_, kv_heads_, own.get());
      saved.arrays[kKeys] = GatherKeys(own.get());
    }
    saved.arrays[kOut] = c.New(c.tokens * q_);
    const AttentionShape shape = Shape();
    if (c.config.grad_checkpoint != trials::kRecomputeSelective) {
      saved.arrays[kKept] = c.New(c.device.AttentionKept(shape));
    }
    const Array scratch =
        c.New(c.device.AttentionScratch(shape), Region::kWorkspace);
    c.device.AttentionForward(Arguments(saved, shape, scratch));
    Array y = c.New(c.tokens * hidden_);
    c.Linear(c.tokens, q_, hidden_, saved[kOut], out_weight_->weight, y.get());
    return y;
  }

  Array Backward(Tensor dy, Tensor x, Saved& saved) override {
    const Context& c = context_;
    Array dout = c.New(c.tokens * q_, Region::kWorkspace);
    c.LinearBackward(c.tokens, q_, hidden_, dy, saved[kOut],
                     out_weight_->weight, out_weight_->gradient, dout.get());
    const AttentionShape shape = Shape();
    const std::int64_t query_width = c.cp == nullptr ? q_ + 2 * kv_ : q_;
    Array dquery = c.New(c.tokens * query_width, Region::kWorkspace);
    Array dkeys = c.cp == nullptr ? Array()
                                  : c.New(c.tokens * c.mesh.cp * 2 * kv_,
                                          Region::kWorkspace);
    const Tensor dk = c.cp == nullptr ? dquery.get().From(q_) : dkeys.get();
    Array scratch = c.New(c.device.AttentionScratch(shape), Region::kWorkspace);
    AttentionArgs args = Arguments(saved, shape, scratch);
    args.dout = dout.get();
    args.dq = dquery.get();
    args.dk = dk;
    args.dv = dk.From(kv_);
    c.device.AttentionBackward(args);
    scratch.Reset();
    dout.Reset();
    saved = {};
    Array dx = c.New(c.tokens * hidden_);
    if (c.cp == nullptr) {
      Rotate(true, q_ + 2 * kv_, heads_ + kv_heads_, dquery.get());
      ProjectBackward(dquery.get(), x, 0, q_ + 2 * kv_, dx.get(), 0.0);
      return dx;
    }
    Rotate(true, q_, heads_, dquery.get());
    ProjectBackward(dquery.get(), x, 0, q_, dx.get(), 0.0);
    const Array own = ReduceKeys(std::move(dkeys));
    Rotate(true, 2 * kv_, kv_heads_, own.get());
    ProjectBackward(own.get(), x, q_, 2 * kv_, dx.get(), 1.0);
    return dx;
  }

 private:
  [[nodiscard]] AttentionShape Shape() const {
    const Context& c = context_;
    const bool one = c.cp == nullptr;
    return {.batch = c.sequences,
            .queries = c.length,
            .keys = c.length * c.mesh.cp,
            .query_offset = c.offset,
            .heads = heads_,
            .kv_heads = kv_heads_,
            .head_size = head_size_,
            .q_stride = one ? q_ + 2 * kv_ : q_,
            .kv_stride = one ? q_ + 2 * kv_ : 2 * kv_,
            .out_stride = q_,
            .causal = c.model.causal};
  }
  [[nodiscard]] Tensor Keys(const Saved& saved) const {
    return context_.cp == nullptr ? saved[kQuery].From(q_) : saved[kKeys];
  }

  // Rows begin .. begin + width of the fused weight applied to x.
  [[nodiscard]] Array Project(Tensor x, std::int64_t begin,
                              std::int64_t width) const {
    const Context& c = context_;
    Array y = c.New(c.tokens * width);
    c.Linear(c.tokens, hidden_, width, x,
             weight_->weight.Slice(begin * hidden_, width * hidden_), y.get(),
             bias_ == nullptr ? Tensor{} : bias_->weight.Slice(begin, width));
    return y;
  }
  void ProjectBackward(Tensor dy, Tensor x, std::int64_t begin,
                       std::int64_t width, Tensor dx, double beta) const {
    const Context& c = context_;
    if (bias_ != nullptr) {
      c.device.BiasBackward(c.tokens, width, dy,
                            bias_->gradient.Slice(begin, width));
    }
    c.LinearBackward(c.tokens, hidden_, width, dy, x,
                     weight_->weight.Slice(begin * hidden_, width * hidden_),
                     weight_->gradient.Slice(begin * hidden_, width * hidden_),
                     dx, beta);
  }

  [[nodiscard]] AttentionArgs Arguments(const Saved& saved,
                                        const AttentionShape& shape,
                                        const Array& scratch) const {
    return {.shape = shape,
            .q = saved[kQuery],
            .k = Keys(saved),
            .v = Keys(saved).From(kv_),
            .out = saved[kOut],
            .kept = saved[kKept],
            .scratch = scratch.get()};
  }

  void Rotate(bool backward, std::int64_t stride, std::int64_t heads,
              Tensor x) const {
    const Context& c = context_;
    if (!c.rotary.empty()) {
      const Positions positions{0, c.tokens, c.length, c.offset};
      c.device.Rotate({.positions = positions,
                       .heads = heads,
                       .head_size = head_size_,
                       .stride = stride,
                       .backward = backward,
                       .table = c.rotary,
                       .x = x});
    }
  }

  // [sequences, length, 2 kv] of each cp rank to [sequences, cp * length, ...].
  [[nodiscard]] Array GatherKeys(Tensor own) const {
    const Context& c = context_;
    Array gathered = c.New(own.size * c.mesh.cp, Region::kCommunication);
    Wait(c.cp->AllGather(own, gathered.get()));
    Array keys = c.New(own.size * c.mesh.cp);
    c.device.SwapLeading(c.mesh.cp, c.sequences, c.length * 2 * kv_,
                         gathered.get(), keys.get());
    return keys;
  }
  [[nodiscard]] Array ReduceKeys(Array keys) const {
    const Context& c = context_;
    Array swapped = c.New(keys.get().size, Region::kCommunication);
    c.device.SwapLeading(c.sequences, c.mesh.cp, c.length * 2 * kv_, keys.get(),
                         swapped.get());
    Array own = c.New(keys.get().size / c.mesh.cp, Region::kWorkspace);
    Wait(c.cp->ReduceScatter(swapped.get(), own.get()));
    return own;
  }

  const Context& context_;
  std::int64_t hidden_, heads_, kv_heads_, head_size_, q_, kv_;
  Parameter* weight_ = nullptr;
  Parameter* bias_ = nullptr;
  Parameter* out_weight_ = nullptr;
  Parameter* out_bias_ = nullptr;
};

}  // namespace

std::unique_ptr<Core> MakeAttention(const Context& context,
                                    ParameterStore& store,
                                    const std::string& name) {
  return std::make_unique<Attention>(context, store, name);
}

}  // namespace trainer
