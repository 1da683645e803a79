// The interface of what computes: memory, matrix products, the operators of a
// transformer block and Adam.

#pragma once

#include <cstdint>

#include "trainer/tensor.h"

namespace trainer {

enum class NormKind { kLayer, kRms };
// kSwiGlu is gated: its input is [rows, 2 cols], the gate before the up half.
enum class Activation { kGelu, kGeluTanh, kSwiGlu };

// C = alpha op(A) op(B) + beta C + bias, all row-major; op(A) is [m, k], op(B)
// [k, n], bias (or empty) [n].
struct GemmShape {
  bool transpose_a = false;
  bool transpose_b = false;
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t lda = 0, ldb = 0, ldc = 0;  // elements from row to row
  double alpha = 1.0, beta = 0.0;
};

// Attention of `queries` tokens to `keys` tokens in each of `batch` sequences.
// Query i has the position query_offset + i. Query head h reads key-value head
// h / (heads / kv_heads). Tokens of q and out are [batch, queries], of k and v
// [batch, keys]; a token's heads are contiguous, and the strides are elements
// from token to token.
struct AttentionShape {
  std::int64_t batch = 0, queries = 0, keys = 0, query_offset = 0;
  std::int64_t heads = 0, kv_heads = 0, head_size = 0;
  std::int64_t q_stride = 0, kv_stride = 0, out_stride = 0;
  bool causal = true;
};

// Tokens begin .. begin + rows of [batch, length]; token t has the position
// offset + t % length.
struct Positions {
  std::int64_t begin = 0, rows = 0, length = 1, offset = 0;
};

struct AdamOptions {
  double learning_rate = 1e-3, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double weight_decay = 0.0;
  int step = 1;  // >= 1
};

// The arguments of an operator and of its gradient: forward leaves out the
// operands d*, backward what only forward needs.

// y = (x - mean) rstd scale + shift (kLayer), x rstd scale (kRms).
// Shapes: x, y [rows, cols]; scale, shift [cols]; statistics wide [rows, 2]:
// mean and rstd = 1 / sqrt(variance + epsilon). shift is empty for kRms.
struct NormArgs {
  NormKind kind = NormKind::kRms;
  double epsilon = 0.0;
  std::int64_t rows = 0, cols = 0;
  Tensor x, scale, shift, y, statistics;
  Tensor dy, dx, dscale, dshift;  // all but dy += (dx is an accumulator)
};

// y = activation(x). x is [rows, cols] or, if gated, [rows, 2 cols]; y is
// [rows, cols].
struct ActivationArgs {
  Activation kind = Activation::kGelu;
  std::int64_t rows = 0, cols = 0;
  Tensor x, y;
  Tensor dy, dx;  // dx =

  [[nodiscard]] std::int64_t inputs() const {
    return kind == Activation::kSwiGlu ? 2 * cols : cols;
  }
};

// Rotates the pairs (i, i + head_size / 2) of each head in place, in reverse
// where `backward`. x is [rows, stride], of which the first heads * head_size
// are read; table is wide [positions, head_size]: cosines, then sines.
struct RotateArgs {
  Positions positions;
  std::int64_t heads = 0, head_size = 0, stride = 0;
  bool backward = false;
  Tensor table, x;
};

// kept (or empty) and scratch have AttentionKept and AttentionScratch elements;
// without `kept`, backward computes it again.
struct AttentionArgs {
  AttentionShape shape;
  Tensor q, k, v, out, kept, scratch;
  Tensor dout, dq, dk, dv;  // strides of out, q, k and v; dq, dk, dv =
};

// out[t] = table[token[t] - first] or 0 where the table lacks the token.
// tokens is int32 [rows], table [table_rows, cols].
struct EmbeddingArgs {
  std::int64_t rows = 0, cols = 0, first = 0, table_rows = 0;
  Tensor tokens, table, out;
  Tensor dout, dtable;  // dtable +=
};

// Cross entropy over a vocabulary that ranks may share. logits [rows, stride],
// of which the first cols are valid and are those of the labels first .. first
// + cols. maxima is wide [rows], sums wide [rows, 2], loss wide [1].
struct LossArgs {
  std::int64_t rows = 0, cols = 0, stride = 0, first = 0;
  double scale = 1.0;
  Tensor logits, labels, maxima, sums, loss;
};

// The k largest of each row of softmax(logits), scaled to the sum 1.
// logits [rows, experts]; chosen int32 [rows, k], weights [rows, k].
struct RouteArgs {
  std::int64_t rows = 0, experts = 0, k = 0;
  Tensor logits, chosen, weights;
  Tensor dweights, dlogits;  // dlogits =
};

// Rows of tokens [rows, cols] and of the slots that their k choices have: slots
// int32 [rows, k], each slot once; weights [rows, k] or empty: 1.
struct SlotArgs {
  std::int64_t rows = 0, k = 0, cols = 0;
  Tensor from, slots, weights, to;
};

// One step of AdamW on wide master weights; weights = the rounded master. The
// gradient may be wide.
struct AdamArgs {
  AdamOptions options;
  Tensor gradient, master, first_moment, second_moment, weights;
};

// Where a piece of a weight comes from: element (i, j) of [rows, cols] is
// scale * normal(key, (row_begin + i) * global_cols + col_begin + j), and 0 for
// a row >= global_rows.
struct Slab {
  std::uint64_t key = 0;  // of the seed and the name of the parameter
  std::int64_t rows = 0, cols = 0, row_begin = 0, col_begin = 0;
  std::int64_t global_rows = 0, global_cols = 0;
  double scale = 0.0, shift = 0.0;  // shift is added to each element
};

// A device executes its functions in the order of the calls, as if on one
// stream (the compute stream); they may return before they are done. A rank has
// a device of its own and calls it from one thread.
//
// Weights, activations and gradients have `width` bytes per element.
// Statistics, master weights and the optimizer's moments are "wide":
// `wide_width` bytes. Results do not depend on how often a function ran (no
// atomics whose order varies). An operand that is marked "or empty" is left out
// where it is empty.
class Device {
 public:
  virtual ~Device() = default;
  [[nodiscard]] virtual int width() const = 0;
  [[nodiscard]] virtual int wide_width() const = 0;
  // Matrix products are fast if rows have a multiple of this many elements.
  [[nodiscard]] virtual std::int64_t row_multiple() const { return 1; }

  // ---- memory ----
  // The memory of the rank's arena; called once. Errors: std::bad_alloc.
  virtual std::byte* Reserve(std::int64_t bytes) = 0;
  virtual void Zero(Tensor x) = 0;
  virtual void Copy(Tensor from, Tensor to) = 0;     // same width
  virtual void Convert(Tensor from, Tensor to) = 0;  // between widths
  virtual void Add(Tensor from, Tensor to) = 0;  // to += from; to may be wide
  // Host memory, same bytes; ToHost waits for the result.
  virtual void FromHost(const void* from, Tensor to) = 0;
  virtual void ToHost(Tensor from, void* to) = 0;
  virtual void Synchronize() = 0;  // waits for all that was called
  virtual void Generate(const Slab& slab, Tensor to) = 0;
  // to[j][i] = from[i][j], rows of `cols` elements: from is [n0, n1, cols].
  virtual void SwapLeading(std::int64_t n0, std::int64_t n1, std::int64_t cols,
                           Tensor from, Tensor to) = 0;

  // ---- matrix product ----
  virtual void Gemm(const GemmShape& shape, Tensor a, Tensor b, Tensor c,
                    Tensor bias) = 0;

  // ---- operators on rows ----
  virtual void NormForward(const NormArgs& args) = 0;
  virtual void NormBackward(const NormArgs& args) = 0;
  virtual void AddBias(std::int64_t rows, std::int64_t cols, Tensor bias,
                       Tensor x) = 0;
  virtual void BiasBackward(std::int64_t rows, std::int64_t cols, Tensor dy,
                            Tensor dbias) = 0;  // dbias +=
  virtual void ActivationForward(const ActivationArgs& args) = 0;
  virtual void ActivationBackward(const ActivationArgs& args) = 0;
  virtual void Rotate(const RotateArgs& args) = 0;

  // ---- attention ----
  // Elements (of `width`) that forward keeps for backward where the device does
  // not recompute the core of attention, and of scratch memory of each call.
  [[nodiscard]] virtual std::int64_t AttentionKept(
      const AttentionShape& shape) const = 0;
  [[nodiscard]] virtual std::int64_t AttentionScratch(
      const AttentionShape& shape) const = 0;
  virtual void AttentionForward(const AttentionArgs& args) = 0;
  virtual void AttentionBackward(const AttentionArgs& args) = 0;

  // ---- embeddings ----
  virtual void EmbeddingForward(const EmbeddingArgs& args) = 0;
  virtual void EmbeddingBackward(const EmbeddingArgs& args) = 0;
  // x[t] += table[position of t]; the gradient of the table.
  virtual void AddPositions(const Positions& positions, std::int64_t cols,
                            Tensor table, Tensor x) = 0;
  virtual void PositionsBackward(const Positions& positions, std::int64_t cols,
                                 Tensor dx,
                                 Tensor dtable) = 0;  // +=

  // ---- loss ----
  virtual void LossMaxima(const LossArgs& args) = 0;  // may prepare sums
  // sums: sum exp(logit - max), logit of the label - max or 0.
  virtual void LossSums(const LossArgs& args) = 0;
  // loss += sum over rows with label >= 0 of log(sum) - logit, and logits =
  // (softmax - onehot) * scale, 0 in rows with a label < 0 and beyond cols.
  virtual void LossBackward(const LossArgs& args) = 0;

  // ---- mixture of experts ----
  virtual void RouteForward(const RouteArgs& args) = 0;
  virtual void RouteBackward(const RouteArgs& args) = 0;
  // to[slots[t, j]] = weights[t, j] * from[t].
  virtual void ScatterRows(const SlotArgs& args) = 0;
  // to[t] = sum_j weights[t, j] * from[slots[t, j]].
  virtual void CombineRows(const SlotArgs& args) = 0;
  // The gradient of the weights of CombineRows, whose `to` has the gradient
  // dto: dweights[t, j] = <dto[t], from[slots[t, j]]>.
  virtual void CombineWeights(const SlotArgs& args, Tensor dto,
                              Tensor dweights) = 0;

  // ---- optimizer ----
  virtual void Adam(const AdamArgs& args) = 0;
};

}  // namespace trainer
