#include "trainer/mlp.h"

#include <utility>

namespace trainer {
namespace {

[[nodiscard]] Activation ActivationOf(const trials::Model& model) {
  if (model.gated_ffn) {
    return Activation::kSwiGlu;
  }
  return model.type == "gpt2" ? Activation::kGeluTanh : Activation::kGelu;
}

}  // namespace

Mlp::Mlp(const Context& owner, ParameterStore& store, const std::string& name,
         GradientShare share)
    : context(owner),
      activation(ActivationOf(owner.model)),
      cols(owner.model.hidden_size),
      ffn(owner.model.ffn_size / owner.mesh.tp),
      inputs(owner.model.gated_ffn ? 2 * ffn : ffn) {
  const std::int64_t all = owner.model.ffn_size;
  const int tp = owner.mesh.tp;
  const int index = owner.mesh.tp_index;
  std::vector<Piece> ups;
  std::vector<Piece> biases;
  if (owner.model.gated_ffn) {
    ups.push_back(RowSplit(name + ".gate", all, cols, tp, index));
    biases.push_back(RowSplit(name + ".gate.bias", all, 1, tp, index));
  }
  ups.push_back(RowSplit(name + ".up", all, cols, tp, index));
  biases.push_back(RowSplit(name + ".up.bias", all, 1, tp, index));
  up = store.Add(share, std::move(ups));
  if (owner.model.ffn_bias) {
    bias = store.Add(share, std::move(biases));
  }
  down = store.Add(share, {ColumnSplit(name + ".down", cols, all, tp, index)});
}

void Mlp::Forward(std::int64_t rows, Tensor x, Tensor hidden, Tensor act,
                  Tensor y) const {
  context.Linear(rows, cols, inputs, x, up->weight, hidden,
                 bias == nullptr ? Tensor{} : bias->weight);
  context.device.ActivationForward(
      {.kind = activation, .rows = rows, .cols = ffn, .x = hidden, .y = act});
  context.Linear(rows, ffn, cols, act, down->weight, y);
}

void Mlp::Backward(std::int64_t rows, Tensor dy, Tensor x, Tensor hidden,
                   Tensor act, Tensor dx) const {
  const Array dact = context.New(rows * ffn, Region::kWorkspace);
  const Array dhidden = context.New(rows * inputs, Region::kWorkspace);
  context.LinearBackward(rows, ffn, cols, dy, act, down->weight, down->gradient,
                         dact.get());
  context.device.ActivationBackward({.kind = activation,
                                     .rows = rows,
                                     .cols = ffn,
                                     .x = hidden,
                                     .dy = dact.get(),
                                     .dx = dhidden.get()});
  if (bias != nullptr) {
    context.device.BiasBackward(rows, inputs, dhidden.get(), bias->gradient);
  }
  context.LinearBackward(rows, cols, inputs, dhidden.get(), x, up->weight,
                         up->gradient, dx);
}

namespace {

class DenseLayer : public Core {
 public:
  DenseLayer(const Context& context, ParameterStore& store,
             const std::string& name)
      : context_(context), mlp_(context, store, name, GradientShare::kDense) {
    if (context.model.ffn_bias) {
      out_bias_ = store.Add(ShardShare(context),
                            {Vector(name + ".down.bias", mlp_.cols)});
    }
  }
  [[nodiscard]] const Parameter* output_bias() const override {
    return out_bias_;
  }
  Array Forward(Tensor x, Saved& saved) override {
    saved.arrays.push_back(context_.New(context_.tokens * mlp_.inputs));
    saved.arrays.push_back(context_.New(context_.tokens * mlp_.ffn));
    Array y = context_.New(x.size);
    mlp_.Forward(context_.tokens, x, saved[0], saved[1], y.get());
    return y;
  }
  Array Backward(Tensor dy, Tensor x, Saved& saved) override {
    Array dx = context_.New(x.size);
    mlp_.Backward(context_.tokens, dy, x, saved[0], saved[1], dx.get());
    saved = {};
    return dx;
  }

 private:
  const Context& context_;
  Mlp mlp_;
  Parameter* out_bias_ = nullptr;
};

}  // namespace

std::unique_ptr<Core> MakeMlp(const Context& context, ParameterStore& store,
                              const std::string& name) {
  return std::make_unique<DenseLayer>(context, store, name);
}

}  // namespace trainer
