#include "trainer/device_cpu.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <new>
#include <vector>

#include <sys/mman.h>

#include "trainer/attention_cpu.h"
#include "trainer/gemm_cpu.h"
#include "trainer/random.h"
#include "trainer/row_kernels.h"

namespace trainer {
namespace {

template <typename T>
class CpuDevice : public Device {
 public:
  CpuDevice() = default;
  CpuDevice(const CpuDevice&) = delete;
  CpuDevice& operator=(const CpuDevice&) = delete;
  ~CpuDevice() override {
    if (slab_ != MAP_FAILED) {
      munmap(slab_, slab_bytes_);
    }
  }

  [[nodiscard]] int width() const override { return sizeof(T); }
  [[nodiscard]] int wide_width() const override { return sizeof(T); }

  std::byte* Reserve(std::int64_t bytes) override {
    slab_bytes_ = static_cast<std::size_t>(bytes);
    slab_ = mmap(nullptr, slab_bytes_, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (slab_ == MAP_FAILED) {
      throw std::bad_alloc();
    }
    return static_cast<std::byte*>(slab_);
  }
  void Zero(Tensor x) override { std::memset(x.data, 0, x.bytes()); }
  void Copy(Tensor from, Tensor to) override {
    CheckSizes(from.bytes() / to.width, {to});
    std::memcpy(to.data, from.data, from.bytes());
  }
  void Convert(Tensor from, Tensor to) override {
    CheckSizes(from.size, {to});
    if (from.width == to.width) {
      Copy(from, to);
      return;
    }
    const auto* in = reinterpret_cast<const float*>(from.data);
    std::copy_n(in, from.size, reinterpret_cast<double*>(to.data));
  }
  void Add(Tensor from, Tensor to) override {
    CheckSizes(from.size, {to});
    AddTo(from.size, Data(from), Data(to));
  }
  void FromHost(const void* from, Tensor to) override {
    std::memcpy(to.data, from, to.bytes());
  }
  void ToHost(Tensor from, void* to) override {
    std::memcpy(to, from.data, from.bytes());
  }
  void Synchronize() override {}

  void Generate(const Slab& slab, Tensor to) override {
    CheckSizes(slab.rows * slab.cols, {to});
    T* out = Data(to);
    for (std::int64_t i = 0; i < slab.rows; ++i) {
      const bool exists = slab.row_begin + i < slab.global_rows;
      const std::uint64_t begin =
          (slab.row_begin + i) * slab.global_cols + slab.col_begin;
      for (std::int64_t j = 0; j < slab.cols; ++j) {
        const double normal =
            slab.scale == 0.0 ? 0.0 : slab.scale * Normal(slab.key, begin + j);
        *out++ = exists ? static_cast<T>(slab.shift + normal) : T(0);
      }
    }
  }

  void SwapLeading(std::int64_t n0, std::int64_t n1, std::int64_t cols,
                   Tensor from, Tensor to) override {
    CheckSizes(n0 * n1 * cols, {from, to});
    for (std::int64_t i = 0; i < n0; ++i) {
      for (std::int64_t j = 0; j < n1; ++j) {
        std::copy_n(Data(from) + (i * n1 + j) * cols, cols,
                    Data(to) + (j * n0 + i) * cols);
      }
    }
  }

  void Gemm(const GemmShape& shape, Tensor a, Tensor b, Tensor c) override {
    if (shape.m > 0 && shape.n > 0 && shape.k > 0) {
      CpuGemm(shape, Data(a), Data(b), Data(c));
    }
  }

  void NormForward(NormKind kind, double epsilon, std::int64_t rows,
                   std::int64_t cols, Tensor x, Tensor scale, Tensor shift,
                   Tensor y, Tensor statistics) override {
    CheckSizes(rows * cols, {x, y});
    CheckSizes(cols, {scale, shift});
    CheckSizes(2 * rows, {statistics});
    const NormRow<T> norm{kind, cols, Data(scale), Data(shift),
                          static_cast<T>(epsilon)};
    for (std::int64_t i = 0; i < rows; ++i) {
      NormForwardRow(norm, Data(x) + i * cols, Data(y) + i * cols,
                     Data(statistics) + 2 * i);
    }
  }
  void NormBackward(NormKind kind, std::int64_t rows, std::int64_t cols,
                    Tensor dy, Tensor x, Tensor scale, Tensor statistics,
                    Tensor dx, Tensor dscale, Tensor dshift) override {
    CheckSizes(rows * cols, {dy, x, dx});
    CheckSizes(cols, {scale, dscale, dshift});
    CheckSizes(2 * rows, {statistics});
    const NormRow<T> norm{kind, cols, Data(scale)};
    for (std::int64_t i = 0; i < rows; ++i) {
      NormBackwardRow(norm, Data(dy) + i * cols, Data(x) + i * cols,
                      Data(statistics) + 2 * i, Data(dx) + i * cols,
                      Data(dscale), Data(dshift));
    }
  }

  void AddBias(std::int64_t rows, std::int64_t cols, Tensor bias,
               Tensor x) override {
    CheckSizes(rows * cols, {x});
    CheckSizes(cols, {bias});
    for (std::int64_t i = 0; i < rows; ++i) {
      AddTo(cols, Data(bias), Data(x) + i * cols);
    }
  }
  void BiasBackward(std::int64_t rows, std::int64_t cols, Tensor dy,
                    Tensor dbias) override {
    CheckSizes(rows * cols, {dy});
    CheckSizes(cols, {dbias});
    for (std::int64_t i = 0; i < rows; ++i) {
      AddTo(cols, Data(dy) + i * cols, Data(dbias));
    }
  }

  void ActivationForward(Activation kind, std::int64_t rows, std::int64_t cols,
                         Tensor bias, Tensor x, Tensor y) override {
    const std::int64_t inputs = kind == Activation::kSwiGlu ? 2 * cols : cols;
    CheckSizes(rows * inputs, {x});
    CheckSizes(rows * cols, {y});
    CheckSizes(inputs, {bias});
    for (std::int64_t i = 0; i < rows; ++i) {
      ActivationForwardRow(kind, cols, Data(bias), Data(x) + i * inputs,
                           Data(y) + i * cols);
    }
  }
  void ActivationBackward(Activation kind, std::int64_t rows, std::int64_t cols,
                          Tensor dy, Tensor x, Tensor dx) override {
    const std::int64_t inputs = kind == Activation::kSwiGlu ? 2 * cols : cols;
    CheckSizes(rows * inputs, {x, dx});
    CheckSizes(rows * cols, {dy});
    for (std::int64_t i = 0; i < rows; ++i) {
      ActivationBackwardRow(kind, cols, Data(dy) + i * cols,
                            Data(x) + i * inputs, Data(dx) + i * inputs);
    }
  }

  void Rotate(const Positions& positions, std::int64_t heads,
              std::int64_t head_size, std::int64_t stride, bool backward,
              Tensor table, Tensor x) override {
    CheckSizes(positions.rows * stride, {x});
    const std::int64_t half = head_size / 2;
    const T sign = backward ? T(-1) : T(1);
    for (std::int64_t t = 0; t < positions.rows; ++t) {
      const T* cosine = Data(table) + Position(positions, t) * head_size;
      const T* sine = cosine + half;
      for (std::int64_t h = 0; h < heads; ++h) {
        T* first = Data(x) + t * stride + h * head_size;
        T* second = first + half;
#pragma omp simd
        for (std::int64_t i = 0; i < half; ++i) {
          const T u = first[i];
          const T v = second[i];
          first[i] = u * cosine[i] - sign * v * sine[i];
          second[i] = v * cosine[i] + sign * u * sine[i];
        }
      }
    }
  }

  [[nodiscard]] std::int64_t AttentionKept(
      const AttentionShape& shape) const override {
    return CpuAttention<T>::Kept(shape);
  }
  [[nodiscard]] std::int64_t AttentionScratch(
      const AttentionShape& shape) const override {
    return CpuAttention<T>::Scratch(shape);
  }
  void AttentionForward(const AttentionShape& shape, Tensor q, Tensor k,
                        Tensor v, Tensor out, Tensor kept,
                        Tensor scratch) override {
    CpuAttention<T>(shape).Forward(Data(q), Data(k), Data(v), Data(out),
                                   Data(kept), Data(scratch));
  }
  void AttentionBackward(const AttentionShape& shape, Tensor dout, Tensor q,
                         Tensor k, Tensor v, Tensor /*out*/, Tensor kept,
                         Tensor scratch, Tensor dq, Tensor dk,
                         Tensor dv) override {
    CpuAttention<T>(shape).Backward(Data(dout), Data(q), Data(k), Data(v),
                                    Data(kept), Data(scratch), Data(dq),
                                    Data(dk), Data(dv));
  }

  void EmbeddingForward(std::int64_t rows, std::int64_t cols,
                        std::int64_t first, std::int64_t table_rows,
                        Tensor tokens, Tensor table, Tensor out) override {
    CheckSizes(rows, {tokens});
    CheckSizes(rows * cols, {out});
    CheckSizes(table_rows * cols, {table});
    for (std::int64_t t = 0; t < rows; ++t) {
      const std::int64_t row = Integers(tokens)[t] - first;
      if (row >= 0 && row < table_rows) {
        std::copy_n(Data(table) + row * cols, cols, Data(out) + t * cols);
      } else {
        std::fill_n(Data(out) + t * cols, cols, T(0));
      }
    }
  }
  void EmbeddingBackward(std::int64_t rows, std::int64_t cols,
                         std::int64_t first, std::int64_t table_rows,
                         Tensor tokens, Tensor dout, Tensor dtable) override {
    CheckSizes(rows, {tokens});
    CheckSizes(rows * cols, {dout});
    CheckSizes(table_rows * cols, {dtable});
    for (std::int64_t t = 0; t < rows; ++t) {
      const std::int64_t row = Integers(tokens)[t] - first;
      if (row >= 0 && row < table_rows) {
        AddTo(cols, Data(dout) + t * cols, Data(dtable) + row * cols);
      }
    }
  }
  void AddPositions(const Positions& positions, std::int64_t cols, Tensor table,
                    Tensor x) override {
    CheckSizes(positions.rows * cols, {x});
    for (std::int64_t t = 0; t < positions.rows; ++t) {
      AddTo(cols, Data(table) + Position(positions, t) * cols,
            Data(x) + t * cols);
    }
  }
  void PositionsBackward(const Positions& positions, std::int64_t cols,
                         Tensor dx, Tensor dtable) override {
    CheckSizes(positions.rows * cols, {dx});
    for (std::int64_t t = 0; t < positions.rows; ++t) {
      AddTo(cols, Data(dx) + t * cols,
            Data(dtable) + Position(positions, t) * cols);
    }
  }

  void LossMaxima(std::int64_t rows, std::int64_t cols, std::int64_t stride,
                  Tensor logits, Tensor maxima) override {
    CheckSizes(rows * stride, {logits});
    CheckSizes(rows, {maxima});
    for (std::int64_t t = 0; t < rows; ++t) {
      Data(maxima)[t] = Maximum(cols, Data(logits) + t * stride);
    }
  }
  void LossSums(std::int64_t rows, std::int64_t cols, std::int64_t stride,
                std::int64_t first, Tensor logits, Tensor labels, Tensor maxima,
                Tensor sums) override {
    CheckSizes(rows * stride, {logits});
    CheckSizes(rows, {labels, maxima});
    CheckSizes(2 * rows, {sums});
    for (std::int64_t t = 0; t < rows; ++t) {
      const T* row = Data(logits) + t * stride;
      const T max = Data(maxima)[t];
      const std::int64_t label = Integers(labels)[t] - first;
      const bool here = Integers(labels)[t] >= 0 && label >= 0 && label < cols;
      Data(sums)[2 * t] = SumExp(cols, max, row);
      Data(sums)[2 * t + 1] = here ? row[label] - max : T(0);
    }
  }
  void LossBackward(std::int64_t rows, std::int64_t cols, std::int64_t stride,
                    std::int64_t first, double scale, Tensor labels,
                    Tensor maxima, Tensor sums, Tensor logits,
                    Tensor loss) override {
    CheckSizes(rows * stride, {logits});
    CheckSizes(rows, {labels, maxima});
    CheckSizes(2 * rows, {sums});
    double total = 0.0;
    for (std::int64_t t = 0; t < rows; ++t) {
      T* row = Data(logits) + t * stride;
      if (Integers(labels)[t] < 0) {
        std::fill_n(row, stride, T(0));
        continue;
      }
      const T sum = Data(sums)[2 * t];
      total += std::log(sum) - Data(sums)[2 * t + 1];
      ScaledExp(cols, Data(maxima)[t], static_cast<T>(scale) / sum, row);
      std::fill_n(row + cols, stride - cols, T(0));
      const std::int64_t label = Integers(labels)[t] - first;
      if (label >= 0 && label < cols) {
        row[label] -= static_cast<T>(scale);
      }
    }
    *Data(loss) += static_cast<T>(total);
  }

  void RouteForward(std::int64_t rows, std::int64_t experts, std::int64_t k,
                    Tensor logits, Tensor chosen, Tensor weights) override {
    CheckSizes(rows * experts, {logits});
    CheckSizes(rows * k, {chosen, weights});
    std::vector<std::int32_t> order(experts);
    for (std::int64_t t = 0; t < rows; ++t) {
      const T* row = Data(logits) + t * experts;
      for (std::int64_t e = 0; e < experts; ++e) {
        order[e] = static_cast<std::int32_t>(e);
      }
      std::partial_sort(order.begin(), order.begin() + k, order.end(),
                        [row](std::int32_t a, std::int32_t b) {
                          return row[a] > row[b] || (row[a] == row[b] && a < b);
                        });
      T* weight = Data(weights) + t * k;
      for (std::int64_t j = 0; j < k; ++j) {
        Integers(chosen)[t * k + j] = order[j];
        weight[j] = row[order[j]];
      }
      SoftmaxRow(k, k, T(1), weight);  // of the chosen: sums to 1
    }
  }
  void RouteBackward(std::int64_t rows, std::int64_t experts, std::int64_t k,
                     Tensor chosen, Tensor weights, Tensor dweights,
                     Tensor dlogits) override {
    CheckSizes(rows * experts, {dlogits});
    CheckSizes(rows * k, {chosen, weights, dweights});
    for (std::int64_t t = 0; t < rows; ++t) {
      T* row = Data(dlogits) + t * experts;
      std::fill_n(row, experts, T(0));
      SoftmaxGradientRow(k, T(1), Data(weights) + t * k,
                         Data(dweights) + t * k);
      for (std::int64_t j = 0; j < k; ++j) {
        row[Integers(chosen)[t * k + j]] = Data(dweights)[t * k + j];
      }
    }
  }
  void ScatterRows(std::int64_t rows, std::int64_t k, std::int64_t cols,
                   Tensor from, Tensor slots, Tensor weights,
                   Tensor to) override {
    CheckSizes(rows * cols, {from});
    CheckSizes(rows * k, {slots, weights});
    for (std::int64_t i = 0; i < rows * k; ++i) {
      T* out = Data(to) + Integers(slots)[i] * cols;
      const T* in = Data(from) + i / k * cols;
      std::fill_n(out, cols, T(0));
      AddScaled(cols, weights.empty() ? T(1) : Data(weights)[i], in, out);
    }
  }
  void CombineRows(std::int64_t rows, std::int64_t k, std::int64_t cols,
                   Tensor from, Tensor slots, Tensor weights,
                   Tensor to) override {
    CheckSizes(rows * k, {slots, weights});
    CheckSizes(rows * cols, {to});
    std::fill_n(Data(to), rows * cols, T(0));
    for (std::int64_t i = 0; i < rows * k; ++i) {
      AddScaled(cols, weights.empty() ? T(1) : Data(weights)[i],
                Data(from) + Integers(slots)[i] * cols,
                Data(to) + i / k * cols);
    }
  }
  void CombineWeights(std::int64_t rows, std::int64_t k, std::int64_t cols,
                      Tensor dto, Tensor from, Tensor slots,
                      Tensor dweights) override {
    CheckSizes(rows * cols, {dto});
    CheckSizes(rows * k, {slots, dweights});
    for (std::int64_t i = 0; i < rows * k; ++i) {
      Data(dweights)[i] = Dot(cols, Data(dto) + i / k * cols,
                              Data(from) + Integers(slots)[i] * cols);
    }
  }

  void Adam(const AdamOptions& options, Tensor gradient, Tensor master,
            Tensor first_moment, Tensor second_moment,
            Tensor weights) override {
    CheckSizes(gradient.size, {master, first_moment, second_moment, weights});
    AdamRow(options, gradient.size, Data(gradient), Data(master),
            Data(first_moment), Data(second_moment), Data(weights));
  }

 private:
  static T* Data(const Tensor& x) { return reinterpret_cast<T*>(x.data); }
  static std::int32_t* Integers(const Tensor& x) {
    return reinterpret_cast<std::int32_t*>(x.data);
  }
  // Operands have their shapes, unless they are left out or have no rows.
  static void CheckSizes(std::int64_t size,
                         std::initializer_list<Tensor> operands) {
    for (const Tensor& x : operands) {
      assert(size == 0 || x.empty() || x.size == size);
    }
  }
  static std::int64_t Position(const Positions& p, std::int64_t row) {
    return p.offset + (p.begin + row) % p.length;
  }

  void* slab_ = MAP_FAILED;
  std::size_t slab_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Device> MakeCpuDevice(CpuPrecision precision) {
  UseOneThread();
  if (precision == CpuPrecision::kDouble) {
    return std::make_unique<CpuDevice<double>>();
  }
  return std::make_unique<CpuDevice<float>>();
}

}  // namespace trainer
