// A transformer block: attention and a feed-forward layer, each with a norm and
// a residual connection.
//
//   pre-norm:  y = x + f(norm(x))     (GPT-2, Llama, ViT)
//   post-norm: y = norm(x + f(x))     (BERT)

#include <utility>

#include "trainer/unit.h"

namespace trainer {

Norm::Norm(const Context& context, ParameterStore& store,
           const std::string& name)
    : kind(context.model.norm_bias ? NormKind::kLayer : NormKind::kRms),
      cols(context.model.hidden_size),
      scale(
          store.Add(ShardShare(context), {Vector(name + ".scale", cols, 1.0)})),
      shift(context.model.norm_bias ? store.Add(ShardShare(context),
                                                {Vector(name + ".shift", cols)})
                                    : nullptr) {}

void Norm::Forward(const Context& context, Tensor x, Tensor y,
                   Tensor statistics) const {
  context.device.NormForward(
      {.kind = kind,
       .epsilon = context.constants.norm_epsilon,
       .rows = x.size / cols,
       .cols = cols,
       .x = x,
       .scale = scale->weight,
       .shift = shift == nullptr ? Tensor{} : shift->weight,
       .y = y,
       .statistics = statistics});
}

void Norm::Backward(const Context& context, Tensor dy, Tensor x,
                    Tensor statistics, Tensor dx) const {
  context.device.NormBackward(
      {.kind = kind,
       .rows = x.size / cols,
       .cols = cols,
       .x = x,
       .scale = scale->weight,
       .statistics = statistics,
       .dy = dy,
       .dx = dx,
       .dscale = scale->gradient,
       .dshift = shift == nullptr ? Tensor{} : shift->gradient});
}

namespace {

// One half of a block. Saved: the input of the norm (pre: x), the normalized
// rows (pre: norm(x), post: x), the statistics.
class Sublayer {
 public:
  Sublayer(const Context& context, ParameterStore& store,
           const std::string& name, std::unique_ptr<Core> core)
      : context_(context),
        norm_(context, store, name + ".norm"),
        core_(std::move(core)),
        post_norm_(context.model.embedding_norm) {}

  Array Forward(Array x, Saved& saved) {
    const std::int64_t size = x.get().size;
    Array statistics = context_.NewWide(2 * size / norm_.cols);
    saved.parts.resize(1);
    if (post_norm_) {
      Array sum = Apply(x.get(), saved.parts[0]);
      context_.device.Add(x.get(), sum.get());
      Array y = context_.New(size);
      norm_.Forward(context_, sum.get(), y.get(), statistics.get());
      Keep(saved, std::move(sum), std::move(x), std::move(statistics));
      return y;
    }
    Array normal = context_.New(size);
    norm_.Forward(context_, x.get(), normal.get(), statistics.get());
    Array y = Apply(normal.get(), saved.parts[0]);
    context_.device.Add(x.get(), y.get());
    Keep(saved, std::move(x), std::move(normal), std::move(statistics));
    return y;
  }

  Array Backward(Array dy, Saved& saved) {
    if (post_norm_) {
      Array dsum = context_.New(dy.get().size);
      context_.device.Zero(dsum.get());
      norm_.Backward(context_, dy.get(), saved[0], saved[2], dsum.get());
      dy.Reset();
      Array dx = ApplyBackward(dsum.get(), saved[1], saved.parts[0]);
      context_.device.Add(dsum.get(), dx.get());
      saved = {};
      return dx;
    }
    Array dnormal = ApplyBackward(dy.get(), saved[1], saved.parts[0]);
    norm_.Backward(context_, dnormal.get(), saved[0], saved[2], dy.get());
    saved = {};
    return dy;
  }

 private:
  static void Keep(Saved& saved, Array first, Array second, Array third) {
    saved.arrays.push_back(std::move(first));
    saved.arrays.push_back(std::move(second));
    saved.arrays.push_back(std::move(third));
  }

  Array Apply(Tensor x, Saved& saved) {
    const Array all = context_.GatherTokens(x);
    Array y =
        context_.ReduceTokens(core_->Forward(Context::All(all, x), saved));
    if (core_->output_bias() != nullptr) {
      context_.device.AddBias(y.get().size / norm_.cols, norm_.cols,
                              core_->output_bias()->weight, y.get());
    }
    return y;
  }

  Array ApplyBackward(Tensor dy, Tensor x, Saved& saved) {
    if (core_->output_bias() != nullptr) {
      context_.device.BiasBackward(dy.size / norm_.cols, norm_.cols, dy,
                                   core_->output_bias()->gradient);
    }
    const Array all_dy = context_.GatherTokens(dy);
    const Array all_x = context_.GatherTokens(x);
    return context_.ReduceTokens(core_->Backward(
        Context::All(all_dy, dy), Context::All(all_x, x), saved));
  }

  const Context& context_;
  Norm norm_;
  std::unique_ptr<Core> core_;
  bool post_norm_;
};

// With full recomputation only the input is saved, and backward repeats the
// forward. Source: Chen et al. (2016).
class Block : public Unit {
 public:
  Block(const Context& context, ParameterStore& store, const std::string& name)
      : context_(context),
        attention_(context, store, name + ".attention",
                   MakeAttention(context, store, name + ".attention")),
        feed_forward_(context, store, name + ".mlp",
                      context.model.experts > 0
                          ? MakeExperts(context, store, name + ".experts")
                          : MakeMlp(context, store, name + ".mlp")) {}

  Array Forward(const Batch& /*batch*/, Array input, Saved& saved) override {
    if (context_.config.grad_checkpoint != trials::kRecomputeFull) {
      return Run(std::move(input), saved);
    }
    Array copy = context_.New(input.get().size);
    context_.device.Copy(input.get(), copy.get());
    saved.arrays.push_back(std::move(input));
    Saved dropped;
    return Run(std::move(copy), dropped);
  }

  Array Backward(const Batch& /*batch*/, Array doutput, Saved& saved) override {
    if (context_.config.grad_checkpoint == trials::kRecomputeFull) {
      Array input = std::move(saved.arrays[0]);
      saved = {};
      Run(std::move(input), saved);
    }
    Array dmiddle = feed_forward_.Backward(std::move(doutput), saved.parts[1]);
    Array dinput = attention_.Backward(std::move(dmiddle), saved.parts[0]);
    saved = {};
    return dinput;
  }

 private:
  Array Run(Array input, Saved& saved) {
    saved.parts.resize(2);
    Array middle = attention_.Forward(std::move(input), saved.parts[0]);
    return feed_forward_.Forward(std::move(middle), saved.parts[1]);
  }

  const Context& context_;
  Sublayer attention_;
  Sublayer feed_forward_;
};

}  // namespace

std::unique_ptr<Unit> MakeBlock(const Context& context, ParameterStore& store,
                                int layer) {
  return std::make_unique<Block>(context, store,
                                 "block." + std::to_string(layer));
}

}  // namespace trainer
