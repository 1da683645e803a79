// Norms, biases, activations and rotary embeddings.

#include <algorithm>

#include "trainer/cuda/cuda_device.h"
#include "trainer/cuda/dispatch.h"
#include "trainer/cuda/numeric.h"

namespace trainer::cuda {
namespace {

// A block per row, vectors of numbers.
template <typename Numbers>
__global__ void NormForwardKernel(NormArgs a) {
  using T = typename Numbers::Number;
  constexpr int kWidth = Numbers::kWidth;
  const int vectors = static_cast<int>(a.cols) / kWidth;
  const float cols = static_cast<float>(a.cols);
  const Numbers* x = Of<Numbers>(a.x) + blockIdx.x * a.cols / kWidth;
  float mean = 0.0F;
  if (a.kind == NormKind::kLayer) {
    for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
      const Numbers row = x[i];
      for (const T number : row.x) {
        mean += ToFloat(number);
      }
    }
    mean = BlockReduce(mean, 0.0F, SumOf()) / cols;
  }
  float square = 0.0F;
  for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
    const Numbers row = x[i];
    for (const T number : row.x) {
      const float centered = ToFloat(number) - mean;
      square += centered * centered;
    }
  }
  square = BlockReduce(square, 0.0F, SumOf()) / cols;
  const float rstd = 1.0F / sqrtf(square + static_cast<float>(a.epsilon));
  for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
    const Numbers row = x[i];
    const Numbers scale = Of<Numbers>(a.scale)[i];
    const Numbers shift =
        a.shift.data == nullptr ? Numbers() : Of<Numbers>(a.shift)[i];
    Numbers y;
    for (int j = 0; j < kWidth; ++j) {
      const float normal = (ToFloat(row.x[j]) - mean) * rstd;
      y.x[j] = Round<T>(normal * ToFloat(scale.x[j]) + ToFloat(shift.x[j]));
    }
    Of<Numbers>(a.y)[blockIdx.x * a.cols / kWidth + i] = y;
  }
  if (threadIdx.x == 0) {
    Of<float>(a.statistics)[2 * blockIdx.x] = mean;
    Of<float>(a.statistics)[2 * blockIdx.x + 1] = rstd;
  }
}

// dx of a row.
template <typename Numbers>
__global__ void NormBackwardKernel(NormArgs a) {
  using T = typename Numbers::Number;
  constexpr int kWidth = Numbers::kWidth;
  const int vectors = static_cast<int>(a.cols) / kWidth;
  const float cols = static_cast<float>(a.cols);
  const std::int64_t begin = blockIdx.x * a.cols / kWidth;
  const Numbers* dy = Of<Numbers>(a.dy) + begin;
  const Numbers* x = Of<Numbers>(a.x) + begin;
  Numbers* dx = Of<Numbers>(a.dx) + begin;
  const float mean = Of<float>(a.statistics)[2 * blockIdx.x];
  const float rstd = Of<float>(a.statistics)[2 * blockIdx.x + 1];
  float sum = 0.0F;
  float product = 0.0F;
  for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
    const Numbers row = x[i], gradients = dy[i];
    const Numbers scale = Of<Numbers>(a.scale)[i];
    for (int j = 0; j < kWidth; ++j) {
      const float gradient = ToFloat(gradients.x[j]) * ToFloat(scale.x[j]);
      sum += gradient;
      product += gradient * (ToFloat(row.x[j]) - mean) * rstd;
    }
  }
  sum = a.kind == NormKind::kLayer ? BlockReduce(sum, 0.0F, SumOf()) / cols
                                   : 0.0F;
  product = BlockReduce(product, 0.0F, SumOf()) / cols;
  for (int i = threadIdx.x; i < vectors; i += blockDim.x) {
    const Numbers row = x[i], gradients = dy[i];
    const Numbers scale = Of<Numbers>(a.scale)[i];
    Numbers result = dx[i];
    for (int j = 0; j < kWidth; ++j) {
      const float normal = (ToFloat(row.x[j]) - mean) * rstd;
      const float gradient = ToFloat(gradients.x[j]) * ToFloat(scale.x[j]);
      result.x[j] = Round<T>(ToFloat(result.x[j]) +
                             rstd * (gradient - sum - normal * product));
    }
    dx[i] = result;
  }
}

// Sums over rows, of dy and, where there is dscale, of dy normal(x): blocks own
// 32 vectors of columns and every gridDim.y-th group of rows, of which each of
// their warps has one. partial: float [gridDim.y, 2, cols].
template <typename Numbers>
__global__ void ColumnSumKernel(NormArgs a, float* partial) {
  constexpr int kWidth = Numbers::kWidth;
  constexpr int kCols = 32 * kWidth;  // of a block
  __shared__ float sums[2][kColumnGroups][kCols];
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int group = static_cast<int>(threadIdx.x / 32);
  const std::int64_t vectors = a.cols / kWidth;
  const std::int64_t vector = std::int64_t{blockIdx.x} * 32 + lane;
  const bool scales = a.dscale.data != nullptr;
  const float* statistics = Of<float>(a.statistics);
  Vector<float, kWidth> shift = {}, scale = {};
  if (vector < vectors) {
    for (std::int64_t row = blockIdx.y * kColumnGroups + group; row < a.rows;
         row += gridDim.y * kColumnGroups) {
      const Numbers gradients = Of<Numbers>(a.dy)[row * vectors + vector];
      Numbers x = {};
      float mean = 0.0F, rstd = 0.0F;
      if (scales) {
        x = Of<Numbers>(a.x)[row * vectors + vector];
        mean = statistics[2 * row];
        rstd = statistics[2 * row + 1];
      }
      for (int j = 0; j < kWidth; ++j) {
        const float gradient = ToFloat(gradients.x[j]);
        shift.x[j] += gradient;
        scale.x[j] += gradient * (ToFloat(x.x[j]) - mean) * rstd;
      }
    }
  }
  for (int j = 0; j < kWidth; ++j) {
    sums[0][group][lane * kWidth + j] = shift.x[j];
    sums[1][group][lane * kWidth + j] = scale.x[j];
  }
  __syncthreads();
  partial += std::int64_t{blockIdx.y} * 2 * a.cols;
  for (int i = threadIdx.x; i < 2 * kCols; i += blockDim.x) {
    const std::int64_t col = std::int64_t{blockIdx.x} * kCols + i % kCols;
    if (col < a.cols) {
      float sum = 0.0F;
      for (int j = 0; j < kColumnGroups; ++j) {
        sum += sums[i / kCols][j][i % kCols];
      }
      partial[i / kCols * a.cols + col] = sum;
    }
  }
}

// dshift[c] += sum of the first parts, dscale[c] += sum of the second. Either
// may be empty.
template <typename T>
__global__ void AddColumnSumsKernel(NormArgs a, int parts,
                                    const float* partial) {
  for (std::int64_t col = FlatIndex(); col < a.cols; col += FlatStride()) {
    for (int which = 0; which < 2; ++which) {
      const Tensor& to = which == 0 ? a.dshift : a.dscale;
      if (to.data != nullptr) {
        float sum = ToFloat(Of<T>(to)[col]);
#pragma unroll 8
        for (int i = 0; i < parts; ++i) {
          sum += partial[(std::int64_t{2} * i + which) * a.cols + col];
        }
        Of<T>(to)[col] = Round<T>(sum);
      }
    }
  }
}

void ColumnSum(const NormArgs& args, void* workspace, cudaStream_t stream) {
  constexpr std::int64_t kBlocks = 264;  // two for each multiprocessor of H100
  auto* partial = static_cast<float*>(workspace);
  WithRows(args.rows, args.cols, {args.dy, args.x},
           [&](auto numbers, unsigned, unsigned vectors) {
             using Numbers = decltype(numbers);
             const std::int64_t blocks = (vectors + 31) / 32;
             const std::int64_t parts = std::clamp<std::int64_t>(
                 kBlocks / blocks, 1,
                 (args.rows + kColumnGroups - 1) / kColumnGroups);
             Launch(ColumnSumKernel<Numbers>,
                    Grid{blocks, parts, 1, 32 * kColumnGroups}, stream, args,
                    partial);
             LaunchFlat(AddColumnSumsKernel<typename Numbers::Number>,
                        args.cols, stream, args, parts, partial);
           });
}

template <typename Numbers>
__global__ void AddBiasKernel(unsigned vectors, unsigned cols, Tensor bias,
                              Tensor x) {
  using T = typename Numbers::Number;
  constexpr int kWidth = Numbers::kWidth;
  for (auto i = FlatIndex<unsigned>(); i < vectors;
       i += FlatStride<unsigned>()) {
    Numbers sum = Of<Numbers>(x)[i];
    const Numbers terms = Of<Numbers>(bias)[i % cols];
    for (int j = 0; j < kWidth; ++j) {
      sum.x[j] = Round<T>(ToFloat(sum.x[j]) + ToFloat(terms.x[j]));
    }
    Of<Numbers>(x)[i] = sum;
  }
}

constexpr float kGeluScale = 0.7978845608028654F;  // sqrt(2 / pi)
constexpr float kGeluCube = 0.044715F;
constexpr float kSqrtHalf = 0.7071067811865476F;
constexpr float kDensity = 0.3989422804014327F;  // 1 / sqrt(2 pi)

// The value and the slope of an activation at x; not for kSwiGlu.
struct Curve {
  float value, slope;
};
__device__ __forceinline__ Curve GeluAt(bool tanh_form, float x) {
  if (!tanh_form) {
    const float share = 0.5F * (1.0F + erff(x * kSqrtHalf));
    return {x * share, share + x * kDensity * expf(-0.5F * x * x)};
  }
  const float tangent = tanhf(kGeluScale * (x + kGeluCube * x * x * x));
  const float inner = kGeluScale * (1.0F + 3.0F * kGeluCube * x * x);
  return {0.5F * x * (1.0F + tangent),
          0.5F * (1.0F + tangent + x * (1.0F - tangent * tangent) * inner)};
}

__device__ __forceinline__ float Sigmoid(float x) {
  return __fdividef(1.0F, 1.0F + __expf(-x));
}

template <typename Numbers>
__global__ void ActivationForwardKernel(unsigned vectors, unsigned cols,
                                        ActivationArgs a) {
  using T = typename Numbers::Number;
  constexpr int kWidth = Numbers::kWidth;
  const bool gated = a.kind == Activation::kSwiGlu;
  for (auto i = FlatIndex<unsigned>(); i < vectors;
       i += FlatStride<unsigned>()) {
    const Numbers* x = Of<Numbers>(a.x) + i + (gated ? i / cols * cols : 0);
    const Numbers in = x[0];
    const Numbers up = gated ? x[cols] : in;
    Numbers y;
    for (int j = 0; j < kWidth; ++j) {
      const float value = ToFloat(in.x[j]);
      y.x[j] = Round<T>(
          gated ? value * Sigmoid(value) * ToFloat(up.x[j])
                : GeluAt(a.kind == Activation::kGeluTanh, value).value);
    }
    Of<Numbers>(a.y)[i] = y;
  }
}

template <typename Numbers>
__global__ void ActivationBackwardKernel(unsigned vectors, unsigned cols,
                                         ActivationArgs a) {
  using T = typename Numbers::Number;
  constexpr int kWidth = Numbers::kWidth;
  const bool gated = a.kind == Activation::kSwiGlu;
  for (auto i = FlatIndex<unsigned>(); i < vectors;
       i += FlatStride<unsigned>()) {
    const unsigned at = i + (gated ? i / cols * cols : 0);
    const Numbers dy = Of<Numbers>(a.dy)[i];
    const Numbers in = Of<Numbers>(a.x)[at];
    const Numbers up = gated ? Of<Numbers>(a.x)[at + cols] : in;
    Numbers dx, dup;
    for (int j = 0; j < kWidth; ++j) {
      const float gradient = ToFloat(dy.x[j]);
      const float value = ToFloat(in.x[j]);
      if (gated) {
        const float sigmoid = Sigmoid(value);
        const float silu = value * sigmoid;
        dx.x[j] = Round<T>(gradient * ToFloat(up.x[j]) *
                           (sigmoid + silu * (1.0F - sigmoid)));
        dup.x[j] = Round<T>(gradient * silu);
      } else {
        const bool tanh_form = a.kind == Activation::kGeluTanh;
        dx.x[j] = Round<T>(gradient * GeluAt(tanh_form, value).slope);
      }
    }
    Of<Numbers>(a.dx)[at] = dx;
    if (gated) {
      Of<Numbers>(a.dx)[at + cols] = dup;
    }
  }
}

// half, stride: in vectors.
template <typename Numbers>
__global__ void RotateKernel(unsigned vectors, unsigned half, RotateArgs a) {
  using T = typename Numbers::Number;
  constexpr int kWidth = Numbers::kWidth;
  using Angles = Vector<float, kWidth>;
  const auto heads = static_cast<unsigned>(a.heads);
  for (auto i = FlatIndex<unsigned>(); i < vectors;
       i += FlatStride<unsigned>()) {
    const unsigned row = i / (heads * half);
    const unsigned head = i / half % heads;
    const unsigned pair = i % half;
    const std::int64_t position =
        a.positions.offset + static_cast<unsigned>(a.positions.begin + row) %
                                 static_cast<unsigned>(a.positions.length);
    const Angles* table = Of<Angles>(a.table) + position * 2 * half + pair;
    const Angles cosine = table[0], sine = table[half];
    Numbers* first =
        Of<Numbers>(a.x) + row * (a.stride / kWidth) + head * 2 * half + pair;
    Numbers u = first[0], v = first[half];
    for (int j = 0; j < kWidth; ++j) {
      const float s = a.backward ? -sine.x[j] : sine.x[j];
      const float x = ToFloat(u.x[j]);
      const float y = ToFloat(v.x[j]);
      u.x[j] = Round<T>(x * cosine.x[j] - y * s);
      v.x[j] = Round<T>(y * cosine.x[j] + x * s);
    }
    first[0] = u;
    first[half] = v;
  }
}

}  // namespace

void CudaDevice::NormForward(const NormArgs& args) {
  WithRows(args.rows, args.cols, {args.x, args.scale, args.shift, args.y},
           [&](auto numbers, unsigned, unsigned) {
             Launch(NormForwardKernel<decltype(numbers)>, Grid{args.rows},
                    stream_, args);
           });
}

void CudaDevice::NormBackward(const NormArgs& args) {
  WithRows(args.rows, args.cols, {args.dy, args.x, args.scale, args.dx},
           [&](auto numbers, unsigned, unsigned) {
             Launch(NormBackwardKernel<decltype(numbers)>, Grid{args.rows},
                    stream_, args);
           });
  ColumnSum(args, workspace_, stream_);
}

void CudaDevice::AddBias(std::int64_t rows, std::int64_t cols, Tensor bias,
                         Tensor x) {
  WithRows(rows, cols, {bias, x},
           [&](auto numbers, unsigned vectors, unsigned vector_cols) {
             LaunchFlat(AddBiasKernel<decltype(numbers)>, vectors, stream_,
                        vectors, vector_cols, bias, x);
           });
}

void CudaDevice::BiasBackward(std::int64_t rows, std::int64_t cols, Tensor dy,
                              Tensor dbias) {
  NormArgs args;
  args.rows = rows;
  args.cols = cols;
  args.dy = dy;
  args.dshift = dbias;
  ColumnSum(args, workspace_, stream_);
}

void CudaDevice::ActivationForward(const ActivationArgs& args) {
  WithRows(args.rows, args.cols, {args.x, args.y},
           [&](auto numbers, unsigned vectors, unsigned cols) {
             LaunchFlat(ActivationForwardKernel<decltype(numbers)>, vectors,
                        stream_, vectors, cols, args);
           });
}

void CudaDevice::ActivationBackward(const ActivationArgs& args) {
  WithRows(args.rows, args.cols, {args.x, args.dy, args.dx},
           [&](auto numbers, unsigned vectors, unsigned cols) {
             LaunchFlat(ActivationBackwardKernel<decltype(numbers)>, vectors,
                        stream_, vectors, cols, args);
           });
}

void CudaDevice::Rotate(const RotateArgs& args) {
  const std::int64_t half = args.head_size / 2;
  WithType(args.x.width, [&](auto number) {
    WithVectors<4>(half | args.stride, {args.x, args.table}, [&](auto width) {
      const unsigned vectors =
          ShortCount(args.positions.rows * args.heads * half / width());
      LaunchFlat(RotateKernel<Vector<decltype(number), width()>>, vectors,
                 stream_, vectors, half / width(), args);
    });
  });
}

}  // namespace trainer::cuda
