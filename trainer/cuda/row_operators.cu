// Norms, biases, activations and rotary embeddings.

#include "trainer/cuda/cuda_device.h"
#include "trainer/cuda/dispatch.h"
#include "trainer/cuda/numeric.h"

namespace trainer::cuda {
namespace {

// A block per row.
template <typename T>
__global__ void NormForwardKernel(NormArgs a) {
  const std::int64_t cols = a.cols;
  const T* x = Of<T>(a.x) + blockIdx.x * cols;
  const T* scale = Of<T>(a.scale);
  const T* shift = Of<T>(a.shift);
  float mean = 0.0F;
  if (a.kind == NormKind::kLayer) {
    for (std::int64_t i = threadIdx.x; i < cols; i += blockDim.x) {
      mean += ToFloat(x[i]);
    }
    mean = BlockReduce(mean, 0.0F, SumOf()) / static_cast<float>(cols);
  }
  float square = 0.0F;
  for (std::int64_t i = threadIdx.x; i < cols; i += blockDim.x) {
    const float centered = ToFloat(x[i]) - mean;
    square += centered * centered;
  }
  square = BlockReduce(square, 0.0F, SumOf()) / static_cast<float>(cols);
  const float rstd = 1.0F / sqrtf(square + static_cast<float>(a.epsilon));
  for (std::int64_t i = threadIdx.x; i < cols; i += blockDim.x) {
    const float normal = (ToFloat(x[i]) - mean) * rstd * ToFloat(scale[i]);
    Of<T>(a.y)[blockIdx.x * cols + i] =
        Round<T>(shift == nullptr ? normal : normal + ToFloat(shift[i]));
  }
  if (threadIdx.x == 0) {
    Of<float>(a.statistics)[2 * blockIdx.x] = mean;
    Of<float>(a.statistics)[2 * blockIdx.x + 1] = rstd;
  }
}

// dx of a row.
template <typename T>
__global__ void NormBackwardKernel(NormArgs a) {
  const std::int64_t cols = a.cols;
  const T* dy = Of<T>(a.dy) + blockIdx.x * cols;
  const T* x = Of<T>(a.x) + blockIdx.x * cols;
  const T* scale = Of<T>(a.scale);
  T* dx = Of<T>(a.dx) + blockIdx.x * cols;
  const float mean = Of<float>(a.statistics)[2 * blockIdx.x];
  const float rstd = Of<float>(a.statistics)[2 * blockIdx.x + 1];
  float sum = 0.0F;
  float product = 0.0F;
  for (std::int64_t i = threadIdx.x; i < cols; i += blockDim.x) {
    const float gradient = ToFloat(dy[i]) * ToFloat(scale[i]);
    sum += gradient;
    product += gradient * (ToFloat(x[i]) - mean) * rstd;
  }
  sum = a.kind == NormKind::kLayer
            ? BlockReduce(sum, 0.0F, SumOf()) / static_cast<float>(cols)
            : 0.0F;
  product = BlockReduce(product, 0.0F, SumOf()) / static_cast<float>(cols);
  for (std::int64_t i = threadIdx.x; i < cols; i += blockDim.x) {
    const float normal = (ToFloat(x[i]) - mean) * rstd;
    const float gradient =
        rstd * (ToFloat(dy[i]) * ToFloat(scale[i]) - sum - normal * product);
    dx[i] = Round<T>(ToFloat(dx[i]) + gradient);
  }
}

// Sums over rows: a block owns 32 columns, and each of its warps every
// kColumnGroups-th row. dshift[c] += sum dy; where there is x, dscale[c] +=
// sum dy normal(x). Either result may be empty.
template <typename T>
__global__ void ColumnSumKernel(NormArgs a) {
  __shared__ float scales[kColumnGroups][32];
  __shared__ float shifts[kColumnGroups][32];
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int group = static_cast<int>(threadIdx.x / 32);
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.x) * 32 + lane;
  float scale = 0.0F;
  float shift = 0.0F;
  const float* statistics = Of<float>(a.statistics);
  if (col < a.cols) {
    for (std::int64_t row = group; row < a.rows; row += kColumnGroups) {
      const float gradient = ToFloat(Of<T>(a.dy)[row * a.cols + col]);
      shift += gradient;
      if (a.dscale.data != nullptr) {
        scale +=
            gradient *
            (ToFloat(Of<T>(a.x)[row * a.cols + col]) - statistics[2 * row]) *
            statistics[2 * row + 1];
      }
    }
  }
  scales[group][lane] = scale;
  shifts[group][lane] = shift;
  __syncthreads();
  if (group == 0 && col < a.cols) {
    for (int i = 1; i < kColumnGroups; ++i) {
      scale += scales[i][lane];
      shift += shifts[i][lane];
    }
    if (a.dscale.data != nullptr) {
      T& sum = Of<T>(a.dscale)[col];
      sum = Round<T>(ToFloat(sum) + scale);
    }
    if (a.dshift.data != nullptr) {
      T& sum = Of<T>(a.dshift)[col];
      sum = Round<T>(ToFloat(sum) + shift);
    }
  }
}

template <typename T>
void ColumnSum(const NormArgs& args, cudaStream_t stream) {
  Launch(ColumnSumKernel<T>,
         Grid{(args.cols + 31) / 32, 1, 1, 32 * kColumnGroups}, stream, args);
}

template <typename T>
__global__ void AddBiasKernel(std::int64_t rows, std::int64_t cols,
                              const T* bias, T* x) {
  for (std::int64_t i = FlatIndex(); i < rows * cols; i += FlatStride()) {
    x[i] = Round<T>(ToFloat(x[i]) + ToFloat(bias[i % cols]));
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

template <typename T>
__device__ __forceinline__ float WithBias(const T* bias, std::int64_t col,
                                          T& x) {
  if (bias != nullptr) {
    x = Round<T>(ToFloat(x) + ToFloat(bias[col]));
  }
  return ToFloat(x);
}

template <typename T>
__global__ void ActivationForwardKernel(ActivationArgs a) {
  const std::int64_t cols = a.cols;
  const T* bias = Of<T>(a.bias);
  for (std::int64_t i = FlatIndex(); i < a.rows * cols; i += FlatStride()) {
    T& y = Of<T>(a.y)[i];
    if (a.kind == Activation::kSwiGlu) {
      const std::int64_t col = i % cols;
      T* row = Of<T>(a.x) + i / cols * 2 * cols;
      const float gate = WithBias(bias, col, row[col]);
      const float up = WithBias(bias, cols + col, row[cols + col]);
      y = Round<T>(gate / (1.0F + expf(-gate)) * up);
    } else {
      const float value = WithBias(bias, i % cols, Of<T>(a.x)[i]);
      y = Round<T>(GeluAt(a.kind == Activation::kGeluTanh, value).value);
    }
  }
}

template <typename T>
__global__ void ActivationBackwardKernel(ActivationArgs a) {
  const std::int64_t cols = a.cols;
  const T* x = Of<T>(a.x);
  T* dx = Of<T>(a.dx);
  for (std::int64_t i = FlatIndex(); i < a.rows * cols; i += FlatStride()) {
    const float gradient = ToFloat(Of<T>(a.dy)[i]);
    if (a.kind == Activation::kSwiGlu) {
      const std::int64_t at = i / cols * 2 * cols + i % cols;
      const float gate = ToFloat(x[at]);
      const float up = ToFloat(x[at + cols]);
      const float sigmoid = 1.0F / (1.0F + expf(-gate));
      const float silu = gate * sigmoid;
      dx[at] = Round<T>(gradient * up * (sigmoid + silu * (1.0F - sigmoid)));
      dx[at + cols] = Round<T>(gradient * silu);
    } else {
      const bool tanh_form = a.kind == Activation::kGeluTanh;
      dx[i] = Round<T>(gradient * GeluAt(tanh_form, ToFloat(x[i])).slope);
    }
  }
}

template <typename T>
__global__ void RotateKernel(RotateArgs a) {
  const float* table = Of<float>(a.table);
  const std::int64_t half = a.head_size / 2;
  const std::int64_t count = a.positions.rows * a.heads * half;
  for (std::int64_t i = FlatIndex(); i < count; i += FlatStride()) {
    const std::int64_t row = i / (a.heads * half);
    const std::int64_t pair = i % half;
    const std::int64_t position =
        a.positions.offset + (a.positions.begin + row) % a.positions.length;
    const float cosine = table[position * a.head_size + pair];
    const float sine = (a.backward ? -1.0F : 1.0F) *
                       table[position * a.head_size + half + pair];
    T* first =
        Of<T>(a.x) + row * a.stride + i / half % a.heads * a.head_size + pair;
    const float u = ToFloat(first[0]);
    const float v = ToFloat(first[half]);
    first[0] = Round<T>(u * cosine - v * sine);
    first[half] = Round<T>(v * cosine + u * sine);
  }
}

}  // namespace

void CudaDevice::NormForward(const NormArgs& args) {
  WithType(args.x.width, [&](auto type) {
    using T = typename decltype(type)::Type;
    Launch(NormForwardKernel<T>, Grid{args.rows}, stream_, args);
  });
}

void CudaDevice::NormBackward(const NormArgs& args) {
  WithType(args.x.width, [&](auto type) {
    using T = typename decltype(type)::Type;
    Launch(NormBackwardKernel<T>, Grid{args.rows}, stream_, args);
    ColumnSum<T>(args, stream_);
  });
}

void CudaDevice::AddBias(std::int64_t rows, std::int64_t cols, Tensor bias,
                         Tensor x) {
  WithType(x.width, [&](auto type) {
    using T = typename decltype(type)::Type;
    LaunchFlat(AddBiasKernel<T>, rows * cols, stream_, rows, cols, Of<T>(bias),
               Of<T>(x));
  });
}

void CudaDevice::BiasBackward(std::int64_t rows, std::int64_t cols, Tensor dy,
                              Tensor dbias) {
  NormArgs args;
  args.rows = rows;
  args.cols = cols;
  args.dy = dy;
  args.dshift = dbias;
  WithType(dy.width, [&](auto type) {
    using T = typename decltype(type)::Type;
    ColumnSum<T>(args, stream_);
  });
}

void CudaDevice::ActivationForward(const ActivationArgs& args) {
  WithType(args.x.width, [&](auto type) {
    using T = typename decltype(type)::Type;
    LaunchFlat(ActivationForwardKernel<T>, args.rows * args.cols, stream_,
               args);
  });
}

void CudaDevice::ActivationBackward(const ActivationArgs& args) {
  WithType(args.x.width, [&](auto type) {
    using T = typename decltype(type)::Type;
    LaunchFlat(ActivationBackwardKernel<T>, args.rows * args.cols, stream_,
               args);
  });
}

void CudaDevice::Rotate(const RotateArgs& args) {
  WithType(args.x.width, [&](auto type) {
    using T = typename decltype(type)::Type;
    LaunchFlat(RotateKernel<T>,
               args.positions.rows * args.heads * (args.head_size / 2), stream_,
               args);
  });
}

}  // namespace trainer::cuda
