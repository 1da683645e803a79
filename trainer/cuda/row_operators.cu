// Norms, biases, activations and rotary embeddings.

#include "trainer/cuda/cuda_device.h"
#include "trainer/cuda/dispatch.h"
#include "trainer/cuda/numeric.h"

namespace trainer::cuda {
namespace {

// A block per row.
template <typename T>
__global__ void NormForwardKernel(bool layer, float epsilon, std::int64_t cols,
                                  const T* x, const T* scale, const T* shift,
                                  T* y, float* statistics) {
  x += blockIdx.x * cols;
  y += blockIdx.x * cols;
  float mean = 0.0F;
  if (layer) {
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
  const float rstd = 1.0F / sqrtf(square + epsilon);
  for (std::int64_t i = threadIdx.x; i < cols; i += blockDim.x) {
    const float normal = (ToFloat(x[i]) - mean) * rstd * ToFloat(scale[i]);
    y[i] = Round<T>(shift == nullptr ? normal : normal + ToFloat(shift[i]));
  }
  if (threadIdx.x == 0) {
    statistics[2 * blockIdx.x] = mean;
    statistics[2 * blockIdx.x + 1] = rstd;
  }
}

// dx of a row.
template <typename T>
__global__ void NormBackwardKernel(bool layer, std::int64_t cols, const T* dy,
                                   const T* x, const T* scale,
                                   const float* statistics, T* dx) {
  dy += blockIdx.x * cols;
  x += blockIdx.x * cols;
  dx += blockIdx.x * cols;
  const float mean = statistics[2 * blockIdx.x];
  const float rstd = statistics[2 * blockIdx.x + 1];
  float sum = 0.0F;
  float product = 0.0F;
  for (std::int64_t i = threadIdx.x; i < cols; i += blockDim.x) {
    const float gradient = ToFloat(dy[i]) * ToFloat(scale[i]);
    sum += gradient;
    product += gradient * (ToFloat(x[i]) - mean) * rstd;
  }
  sum =
      layer ? BlockReduce(sum, 0.0F, SumOf()) / static_cast<float>(cols) : 0.0F;
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
// sum dy normal(x). Either result may be null.
template <typename T>
__global__ void ColumnSumKernel(std::int64_t rows, std::int64_t cols,
                                const T* dy, const T* x,
                                const float* statistics, T* dscale, T* dshift) {
  __shared__ float scales[kColumnGroups][32];
  __shared__ float shifts[kColumnGroups][32];
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int group = static_cast<int>(threadIdx.x / 32);
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.x) * 32 + lane;
  float scale = 0.0F;
  float shift = 0.0F;
  if (col < cols) {
    for (std::int64_t row = group; row < rows; row += kColumnGroups) {
      const float gradient = ToFloat(dy[row * cols + col]);
      shift += gradient;
      if (dscale != nullptr) {
        scale += gradient *
                 (ToFloat(x[row * cols + col]) - statistics[2 * row]) *
                 statistics[2 * row + 1];
      }
    }
  }
  scales[group][lane] = scale;
  shifts[group][lane] = shift;
  __syncthreads();
  if (group == 0 && col < cols) {
    for (int i = 1; i < kColumnGroups; ++i) {
      scale += scales[i][lane];
      shift += shifts[i][lane];
    }
    if (dscale != nullptr) {
      dscale[col] = Round<T>(ToFloat(dscale[col]) + scale);
    }
    if (dshift != nullptr) {
      dshift[col] = Round<T>(ToFloat(dshift[col]) + shift);
    }
  }
}

template <typename T>
void ColumnSum(std::int64_t rows, std::int64_t cols, Tensor dy, Tensor x,
               Tensor statistics, Tensor dscale, Tensor dshift,
               cudaStream_t stream) {
  Launch(ColumnSumKernel<T>, Grid{(cols + 31) / 32, 1, 1, 32 * kColumnGroups},
         stream, rows, cols, Of<T>(dy), Of<T>(x), Of<float>(statistics),
         Of<T>(dscale), Of<T>(dshift));
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
__global__ void ActivationForwardKernel(Activation kind, std::int64_t rows,
                                        std::int64_t cols, const T* bias, T* x,
                                        T* y) {
  for (std::int64_t i = FlatIndex(); i < rows * cols; i += FlatStride()) {
    if (kind == Activation::kSwiGlu) {
      const std::int64_t col = i % cols;
      T* row = x + i / cols * 2 * cols;
      const float gate = WithBias(bias, col, row[col]);
      const float up = WithBias(bias, cols + col, row[cols + col]);
      y[i] = Round<T>(gate / (1.0F + expf(-gate)) * up);
    } else {
      const float value = WithBias(bias, i % cols, x[i]);
      y[i] = Round<T>(GeluAt(kind == Activation::kGeluTanh, value).value);
    }
  }
}

template <typename T>
__global__ void ActivationBackwardKernel(Activation kind, std::int64_t rows,
                                         std::int64_t cols, const T* dy,
                                         const T* x, T* dx) {
  for (std::int64_t i = FlatIndex(); i < rows * cols; i += FlatStride()) {
    const float gradient = ToFloat(dy[i]);
    if (kind == Activation::kSwiGlu) {
      const std::int64_t at = i / cols * 2 * cols + i % cols;
      const float gate = ToFloat(x[at]);
      const float up = ToFloat(x[at + cols]);
      const float sigmoid = 1.0F / (1.0F + expf(-gate));
      const float silu = gate * sigmoid;
      dx[at] = Round<T>(gradient * up * (sigmoid + silu * (1.0F - sigmoid)));
      dx[at + cols] = Round<T>(gradient * silu);
    } else {
      dx[i] =
          Round<T>(gradient *
                   GeluAt(kind == Activation::kGeluTanh, ToFloat(x[i])).slope);
    }
  }
}

template <typename T>
__global__ void RotateKernel(Positions positions, std::int64_t heads,
                             std::int64_t head_size, std::int64_t stride,
                             float sign, const float* table, T* x) {
  const std::int64_t half = head_size / 2;
  const std::int64_t count = positions.rows * heads * half;
  for (std::int64_t i = FlatIndex(); i < count; i += FlatStride()) {
    const std::int64_t row = i / (heads * half);
    const std::int64_t pair = i % half;
    const std::int64_t position =
        positions.offset + (positions.begin + row) % positions.length;
    const float cosine = table[position * head_size + pair];
    const float sine = sign * table[position * head_size + half + pair];
    T* first = x + row * stride + i / half % heads * head_size + pair;
    const float u = ToFloat(first[0]);
    const float v = ToFloat(first[half]);
    first[0] = Round<T>(u * cosine - v * sine);
    first[half] = Round<T>(v * cosine + u * sine);
  }
}

}  // namespace

void CudaDevice::NormForward(NormKind kind, double epsilon, std::int64_t rows,
                             std::int64_t cols, Tensor x, Tensor scale,
                             Tensor shift, Tensor y, Tensor statistics) {
  WithType(x.width, [&](auto type) {
    using T = typename decltype(type)::Type;
    Launch(NormForwardKernel<T>, Grid{rows}, stream_, kind == NormKind::kLayer,
           static_cast<float>(epsilon), cols, Of<T>(x), Of<T>(scale),
           Of<T>(shift), Of<T>(y), Of<float>(statistics));
  });
}

void CudaDevice::NormBackward(NormKind kind, std::int64_t rows,
                              std::int64_t cols, Tensor dy, Tensor x,
                              Tensor scale, Tensor statistics, Tensor dx,
                              Tensor dscale, Tensor dshift) {
  WithType(x.width, [&](auto type) {
    using T = typename decltype(type)::Type;
    Launch(NormBackwardKernel<T>, Grid{rows}, stream_, kind == NormKind::kLayer,
           cols, Of<T>(dy), Of<T>(x), Of<T>(scale), Of<float>(statistics),
           Of<T>(dx));
    ColumnSum<T>(rows, cols, dy, x, statistics, dscale, dshift, stream_);
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
  WithType(dy.width, [&](auto type) {
    using T = typename decltype(type)::Type;
    ColumnSum<T>(rows, cols, dy, {}, {}, {}, dbias, stream_);
  });
}

void CudaDevice::ActivationForward(Activation kind, std::int64_t rows,
                                   std::int64_t cols, Tensor bias, Tensor x,
                                   Tensor y) {
  WithType(x.width, [&](auto type) {
    using T = typename decltype(type)::Type;
    LaunchFlat(ActivationForwardKernel<T>, rows * cols, stream_, kind, rows,
               cols, Of<T>(bias), Of<T>(x), Of<T>(y));
  });
}

void CudaDevice::ActivationBackward(Activation kind, std::int64_t rows,
                                    std::int64_t cols, Tensor dy, Tensor x,
                                    Tensor dx) {
  WithType(x.width, [&](auto type) {
    using T = typename decltype(type)::Type;
    LaunchFlat(ActivationBackwardKernel<T>, rows * cols, stream_, kind, rows,
               cols, Of<T>(dy), Of<T>(x), Of<T>(dx));
  });
}

void CudaDevice::Rotate(const Positions& positions, std::int64_t heads,
                        std::int64_t head_size, std::int64_t stride,
                        bool backward, Tensor table, Tensor x) {
  WithType(x.width, [&](auto type) {
    using T = typename decltype(type)::Type;
    LaunchFlat(RotateKernel<T>, positions.rows * heads * (head_size / 2),
               stream_, positions, heads, head_size, stride,
               backward ? -1.0F : 1.0F, Of<float>(table), Of<T>(x));
  });
}

}  // namespace trainer::cuda
