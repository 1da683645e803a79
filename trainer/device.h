// The interface of what computes: memory, matrix products, the operators of a
// transformer block and Adam.

#ifndef TRAINER_DEVICE_H_
#define TRAINER_DEVICE_H_

#include <cstdint>

#include "trainer/tensor.h"

namespace trainer {

enum class NormKind { kLayer, kRms };
// kSwiGlu is gated: its input is [rows, 2 cols], the gate before the up half.
enum class Activation { kGelu, kGeluTanh, kSwiGlu };

// C = alpha op(A) op(B) + beta C, all row-major; op(A) is [m, k], op(B) [k, n].
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
  virtual void Gemm(const GemmShape& shape, Tensor a, Tensor b, Tensor c) = 0;

  // ---- operators on rows ----
  // y = (x - mean) rstd scale + shift (kLayer), x rstd scale (kRms).
  // Shapes: x, y [rows, cols]; scale, shift [cols]; statistics wide [rows, 2]:
  // mean and rstd = 1 / sqrt(variance + epsilon). shift is empty for kRms.
  virtual void NormForward(NormKind kind, double epsilon, std::int64_t rows,
                           std::int64_t cols, Tensor x, Tensor scale,
                           Tensor shift, Tensor y, Tensor statistics) = 0;
  // dx += gradient (dx is an accumulator), dscale += , dshift += .
  virtual void NormBackward(NormKind kind, std::int64_t rows, std::int64_t cols,
                            Tensor dy, Tensor x, Tensor scale,
                            Tensor statistics, Tensor dx, Tensor dscale,
                            Tensor dshift) = 0;
  virtual void AddBias(std::int64_t rows, std::int64_t cols, Tensor bias,
                       Tensor x) = 0;
  virtual void BiasBackward(std::int64_t rows, std::int64_t cols, Tensor dy,
                            Tensor dbias) = 0;  // dbias +=
  // x += bias (or empty), y = activation(x). x is [rows, cols] or, if gated,
  // [rows, 2 cols]; y is [rows, cols].
  virtual void ActivationForward(Activation kind, std::int64_t rows,
                                 std::int64_t cols, Tensor bias, Tensor x,
                                 Tensor y) = 0;
  virtual void ActivationBackward(Activation kind, std::int64_t rows,
                                  std::int64_t cols, Tensor dy, Tensor x,
                                  Tensor dx) = 0;  // dx =
  // Rotates the pairs (i, i + head_size / 2) of each head in place, in reverse
  // where `backward`. x is [rows, stride], of which the first heads * head_size
  // are read; table is wide [positions, head_size]: cosines, then sines.
  virtual void Rotate(const Positions& positions, std::int64_t heads,
                      std::int64_t head_size, std::int64_t stride,
                      bool backward, Tensor table, Tensor x) = 0;

  // ---- attention ----
  // Elements (of `width`) that forward keeps for backward where the device does
  // not recompute the core of attention, and of scratch memory of each call.
  [[nodiscard]] virtual std::int64_t AttentionKept(
      const AttentionShape& shape) const = 0;
  [[nodiscard]] virtual std::int64_t AttentionScratch(
      const AttentionShape& shape) const = 0;
  // `kept` may be empty: then backward computes it again.
  virtual void AttentionForward(const AttentionShape& shape, Tensor q, Tensor k,
                                Tensor v, Tensor out, Tensor kept,
                                Tensor scratch) = 0;
  virtual void AttentionBackward(const AttentionShape& shape, Tensor dout,
                                 Tensor q, Tensor k, Tensor v, Tensor out,
                                 Tensor kept, Tensor scratch,
                                 Tensor dq,  // strides of q, k and v; dq =
                                 Tensor dk, Tensor dv) = 0;

  // ---- embeddings ----
  // out[t] = table[token[t] - first] or 0 where the table lacks the token.
  // tokens is int32 [rows], table [table_rows, cols].
  virtual void EmbeddingForward(std::int64_t rows, std::int64_t cols,
                                std::int64_t first, std::int64_t table_rows,
                                Tensor tokens, Tensor table, Tensor out) = 0;
  virtual void EmbeddingBackward(std::int64_t rows, std::int64_t cols,
                                 std::int64_t first, std::int64_t table_rows,
                                 Tensor tokens, Tensor dout,
                                 Tensor dtable) = 0;  // +=
  // x[t] += table[position of t]; the gradient of the table.
  virtual void AddPositions(const Positions& positions, std::int64_t cols,
                            Tensor table, Tensor x) = 0;
  virtual void PositionsBackward(const Positions& positions, std::int64_t cols,
                                 Tensor dx,
                                 Tensor dtable) = 0;  // +=

  // ---- loss: cross entropy over a vocabulary that ranks may share ----
  // logits [rows, stride], of which the first cols are valid and are those of
  // the labels first .. first + cols. maxima is wide [rows].
  virtual void LossMaxima(std::int64_t rows, std::int64_t cols,
                          std::int64_t stride, Tensor logits,
                          Tensor maxima) = 0;
  // sums wide [rows, 2]: sum exp(logit - max), logit of the label - max or 0.
  virtual void LossSums(std::int64_t rows, std::int64_t cols,
                        std::int64_t stride, std::int64_t first, Tensor logits,
                        Tensor labels, Tensor maxima, Tensor sums) = 0;
  // loss (wide [1]) += sum over rows with label >= 0 of log(sum) - logit, and
  // logits = (softmax - onehot) * scale, 0 in rows with a label < 0 and beyond
  // cols.
  virtual void LossBackward(std::int64_t rows, std::int64_t cols,
                            std::int64_t stride, std::int64_t first,
                            double scale, Tensor labels, Tensor maxima,
                            Tensor sums, Tensor logits, Tensor loss) = 0;

  // ---- mixture of experts ----
  // The k largest of each row of softmax(logits), scaled to the sum 1.
  // logits [rows, experts]; chosen int32 [rows, k], weights [rows, k].
  virtual void RouteForward(std::int64_t rows, std::int64_t experts,
                            std::int64_t k, Tensor logits, Tensor chosen,
                            Tensor weights) = 0;
  virtual void RouteBackward(std::int64_t rows, std::int64_t experts,
                             std::int64_t k, Tensor chosen, Tensor weights,
                             Tensor dweights,
                             Tensor dlogits) = 0;  // dlogits =
  // to[slots[t, j]] = weights[t, j] (or 1) * from[t]: slots int32 [rows, k],
  // each slot once.
  virtual void ScatterRows(std::int64_t rows, std::int64_t k, std::int64_t cols,
                           Tensor from, Tensor slots, Tensor weights,
                           Tensor to) = 0;
  // to[t] = sum_j weights[t, j] (or 1) * from[slots[t, j]].
  virtual void CombineRows(std::int64_t rows, std::int64_t k, std::int64_t cols,
                           Tensor from, Tensor slots, Tensor weights,
                           Tensor to) = 0;
  // dweights[t, j] = <dto[t], from[slots[t, j]]>.
  virtual void CombineWeights(std::int64_t rows, std::int64_t k,
                              std::int64_t cols, Tensor dto, Tensor from,
                              Tensor slots, Tensor dweights) = 0;

  // ---- optimizer ----
  // One step of AdamW on wide master weights; weights = the rounded master. The
  // gradient may be wide.
  virtual void Adam(const AdamOptions& options, Tensor gradient, Tensor master,
                    Tensor first_moment, Tensor second_moment,
                    Tensor weights) = 0;
};

}  // namespace trainer

#endif  // TRAINER_DEVICE_H_
