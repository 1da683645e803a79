// Two matrices with an activation between them.

#pragma once

#include "trainer/unit.h"

namespace trainer {

// y = act(x up^T + bias) down^T; if gated, up has the rows of the gate first.
// The columns between are split over the tp ranks. It serves a dense layer and
// one expert. hidden [rows, inputs] and act [rows, ffn] are its memory.
struct Mlp {
  Mlp(const Context& context, ParameterStore& store, const std::string& name,
      GradientShare share);
  void Forward(std::int64_t rows, Tensor x, Tensor hidden, Tensor act,
               Tensor y) const;
  void Backward(std::int64_t rows, Tensor dy, Tensor x, Tensor hidden,
                Tensor act, Tensor dx) const;

  const Context& context;
  Activation activation;
  std::int64_t cols;    // of x
  std::int64_t ffn;     // of act
  std::int64_t inputs;  // of hidden: ffn, or 2 ffn if gated
  Parameter* up = nullptr;
  Parameter* bias = nullptr;
  Parameter* down = nullptr;
};

}  // namespace trainer
