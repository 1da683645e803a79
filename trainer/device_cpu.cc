#include "trainer/device_cpu.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <new>
#include <numeric>
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

  void Gemm(const GemmShape& shape, Tensor a, Tensor b, Tensor c,
            Tensor bias) override {
    if (shape.m > 0 && shape.n > 0 && shape.k > 0) {
      CpuGemm(shape, Data(a), Data(b), Data(c));
    }
    if (!bias.empty()) {
      AddBias(shape.m, shape.n, bias, c);
    }
  }

  void NormForward(const NormArgs& a) override {
    CheckSizes(a.rows * a.cols, {a.x, a.y});
    CheckSizes(a.cols, {a.scale, a.shift});
    CheckSizes(2 * a.rows, {a.statistics});
    const NormRow<T> norm{a.kind, a.cols, Data(a.scale), Data(a.shift),
                          static_cast<T>(a.epsilon)};
    for (std::int64_t i = 0; i < a.rows; ++i) {
      NormForwardRow(norm, Data(a.x) + i * a.cols, Data(a.y) + i * a.cols,
                     Data(a.statistics) + 2 * i);
    }
  }
  void NormBackward(const NormArgs& a) override {
    CheckSizes(a.rows * a.cols, {a.dy, a.x, a.dx});
    CheckSizes(a.cols, {a.scale, a.dscale, a.dshift});
    CheckSizes(2 * a.rows, {a.statistics});
    const NormRow<T> norm{a.kind, a.cols, Data(a.scale)};
    for (std::int64_t i = 0; i < a.rows; ++i) {
      NormBackwardRow(norm, Data(a.dy) + i * a.cols, Data(a.x) + i * a.cols,
                      Data(a.statistics) + 2 * i, Data(a.dx) + i * a.cols,
                      Data(a.dscale), Data(a.dshift));
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

  void ActivationForward(const ActivationArgs& a) override {
    CheckSizes(a.rows * a.inputs(), {a.x});
    CheckSizes(a.rows * a.cols, {a.y});
    for (std::int64_t i = 0; i < a.rows; ++i) {
      ActivationForwardRow(a.kind, a.cols, Data(a.x) + i * a.inputs(),
                           Data(a.y) + i * a.cols);
    }
  }
  void ActivationBackward(const ActivationArgs& a) override {
    CheckSizes(a.rows * a.inputs(), {a.x, a.dx});
    CheckSizes(a.rows * a.cols, {a.dy});
    for (std::int64_t i = 0; i < a.rows; ++i) {
      ActivationBackwardRow(a.kind, a.cols, Data(a.dy) + i * a.cols,
                            Data(a.x) + i * a.inputs(),
                            Data(a.dx) + i * a.inputs());
    }
  }

  void Rotate(const RotateArgs& a) override {
    CheckSizes(a.positions.rows * a.stride, {a.x});
    const std::int64_t half = a.head_size / 2;
    const T sign = a.backward ? T(-1) : T(1);
    for (std::int64_t t = 0; t < a.positions.rows; ++t) {
      const T* cosine = Data(a.table) + Position(a.positions, t) * a.head_size;
      const T* sine = cosine + half;
      for (std::int64_t h = 0; h < a.heads; ++h) {
        T* first = Data(a.x) + t * a.stride + h * a.head_size;
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
  void AttentionForward(const AttentionArgs& a) override {
    CpuAttention<T>(a.shape).Forward(Data(a.q), Data(a.k), Data(a.v),
                                     Data(a.out), Data(a.kept),
                                     Data(a.scratch));
  }
  void AttentionBackward(const AttentionArgs& a) override {
    CpuAttention<T>(a.shape).Backward(Data(a.dout), Data(a.q), Data(a.k),
                                      Data(a.v), Data(a.kept), Data(a.scratch),
                                      Data(a.dq), Data(a.dk), Data(a.dv));
  }

  void EmbeddingForward(const EmbeddingArgs& a) override {
    CheckSizes(a.rows, {a.tokens});
    CheckSizes(a.rows * a.cols, {a.out});
    CheckSizes(a.table_rows * a.cols, {a.table});
    for (std::int64_t t = 0; t < a.rows; ++t) {
      const std::int64_t row = Integers(a.tokens)[t] - a.first;
      if (row >= 0 && row < a.table_rows) {
        std::copy_n(Data(a.table) + row * a.cols, a.cols,
                    Data(a.out) + t * a.cols);
      } else {
        std::fill_n(Data(a.out) + t * a.cols, a.cols, T(0));
      }
    }
  }
  void EmbeddingBackward(const EmbeddingArgs& a) override {
    CheckSizes(a.rows, {a.tokens});
    CheckSizes(a.rows * a.cols, {a.dout});
    CheckSizes(a.table_rows * a.cols, {a.dtable});
    for (std::int64_t t = 0; t < a.rows; ++t) {
      const std::int64_t row = Integers(a.tokens)[t] - a.first;
      if (row >= 0 && row < a.table_rows) {
        AddTo(a.cols, Data(a.dout) + t * a.cols, Data(a.dtable) + row * a.cols);
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

  void LossMaxima(const LossArgs& a) override {
    CheckSizes(a.rows * a.stride, {a.logits});
    CheckSizes(a.rows, {a.maxima});
    for (std::int64_t t = 0; t < a.rows; ++t) {
      Data(a.maxima)[t] = Maximum(a.cols, Data(a.logits) + t * a.stride);
    }
  }
  void LossSums(const LossArgs& a) override {
    CheckSizes(a.rows * a.stride, {a.logits});
    CheckSizes(a.rows, {a.labels, a.maxima});
    CheckSizes(2 * a.rows, {a.sums});
    for (std::int64_t t = 0; t < a.rows; ++t) {
      const T* row = Data(a.logits) + t * a.stride;
      const T max = Data(a.maxima)[t];
      const std::int64_t label = Integers(a.labels)[t] - a.first;
      const bool here =
          Integers(a.labels)[t] >= 0 && label >= 0 && label < a.cols;
      Data(a.sums)[2 * t] = SumExp(a.cols, max, row);
      Data(a.sums)[2 * t + 1] = here ? row[label] - max : T(0);
    }
  }
  void LossBackward(const LossArgs& a) override {
    CheckSizes(a.rows * a.stride, {a.logits});
    CheckSizes(a.rows, {a.labels, a.maxima});
    CheckSizes(2 * a.rows, {a.sums});
    const T scale = static_cast<T>(a.scale);
    double total = 0.0;
    for (std::int64_t t = 0; t < a.rows; ++t) {
      T* row = Data(a.logits) + t * a.stride;
      if (Integers(a.labels)[t] < 0) {
        std::fill_n(row, a.stride, T(0));
        continue;
      }
      const T sum = Data(a.sums)[2 * t];
      total += std::log(sum) - Data(a.sums)[2 * t + 1];
      ScaledExp(a.cols, Data(a.maxima)[t], scale / sum, row);
      std::fill_n(row + a.cols, a.stride - a.cols, T(0));
      const std::int64_t label = Integers(a.labels)[t] - a.first;
      if (label >= 0 && label < a.cols) {
        row[label] -= scale;
      }
    }
    *Data(a.loss) += static_cast<T>(total);
  }

  void RouteForward(const RouteArgs& a) override {
    CheckSizes(a.rows * a.experts, {a.logits});
    CheckSizes(a.rows * a.k, {a.chosen, a.weights});
    std::vector<std::int32_t> order(a.experts);
    for (std::int64_t t = 0; t < a.rows; ++t) {
      const T* row = Data(a.logits) + t * a.experts;
      std::iota(order.begin(), order.end(), 0);
      std::partial_sort(order.begin(), order.begin() + a.k, order.end(),
                        [row](std::int32_t x, std::int32_t y) {
                          return row[x] > row[y] || (row[x] == row[y] && x < y);
                        });
      T* weight = Data(a.weights) + t * a.k;
      for (std::int64_t j = 0; j < a.k; ++j) {
        Integers(a.chosen)[t * a.k + j] = order[j];
        weight[j] = row[order[j]];
      }
      SoftmaxRow(a.k, a.k, T(1), weight);  // of the chosen: sums to 1
    }
  }
  void RouteBackward(const RouteArgs& a) override {
    CheckSizes(a.rows * a.experts, {a.dlogits});
    CheckSizes(a.rows * a.k, {a.chosen, a.weights, a.dweights});
    for (std::int64_t t = 0; t < a.rows; ++t) {
      T* row = Data(a.dlogits) + t * a.experts;
      std::fill_n(row, a.experts, T(0));
      SoftmaxGradientRow(a.k, T(1), Data(a.weights) + t * a.k,
                         Data(a.dweights) + t * a.k);
      for (std::int64_t j = 0; j < a.k; ++j) {
        row[Integers(a.chosen)[t * a.k + j]] = Data(a.dweights)[t * a.k + j];
      }
    }
  }
  void ScatterRows(const SlotArgs& a) override {
    CheckSizes(a.rows * a.cols, {a.from});
    CheckSizes(a.rows * a.k, {a.slots, a.weights});
    for (std::int64_t i = 0; i < a.rows * a.k; ++i) {
      T* out = Data(a.to) + Integers(a.slots)[i] * a.cols;
      std::fill_n(out, a.cols, T(0));
      AddScaled(a.cols, a.weights.empty() ? T(1) : Data(a.weights)[i],
                Data(a.from) + i / a.k * a.cols, out);
    }
  }
  void CombineRows(const SlotArgs& a) override {
    CheckSizes(a.rows * a.k, {a.slots, a.weights});
    CheckSizes(a.rows * a.cols, {a.to});
    std::fill_n(Data(a.to), a.rows * a.cols, T(0));
    for (std::int64_t i = 0; i < a.rows * a.k; ++i) {
      AddScaled(a.cols, a.weights.empty() ? T(1) : Data(a.weights)[i],
                Data(a.from) + Integers(a.slots)[i] * a.cols,
                Data(a.to) + i / a.k * a.cols);
    }
  }
  void CombineWeights(const SlotArgs& a, Tensor dto, Tensor dweights) override {
    CheckSizes(a.rows * a.cols, {dto});
    CheckSizes(a.rows * a.k, {a.slots, dweights});
    for (std::int64_t i = 0; i < a.rows * a.k; ++i) {
      Data(dweights)[i] = Dot(a.cols, Data(dto) + i / a.k * a.cols,
                              Data(a.from) + Integers(a.slots)[i] * a.cols);
    }
  }

  void Adam(const AdamArgs& a) override {
    CheckSizes(a.gradient.size,
               {a.master, a.first_moment, a.second_moment, a.weights});
    AdamRow(a.options, a.gradient.size, Data(a.gradient), Data(a.master),
            Data(a.first_moment), Data(a.second_moment), Data(a.weights));
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
