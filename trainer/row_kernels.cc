#include "trainer/row_kernels.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <type_traits>

// Versions of each function for several processors; the program takes the best
// for the one it runs on. Sanitizers cannot run such functions.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define OPPA_VERSIONS \
  template <>         \
  __attribute__((     \
      target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#define OPPA_INLINE [[gnu::always_inline]] inline
#else
#define OPPA_VERSIONS template <>
#define OPPA_INLINE inline
#endif

namespace trainer {
namespace {

// exp(x) without a branch: 2^n p(r), n = round(x / log 2), p the Taylor
// polynomial on |r| <= log(2) / 2. Arguments are clamped so that 2^n is a
// normal number.
template <typename T>
OPPA_INLINE T Exp(T x) {
  constexpr bool kFloat = std::is_same_v<T, float>;
  using Bits = std::conditional_t<kFloat, std::uint32_t, std::uint64_t>;
  constexpr int kMantissa = kFloat ? 23 : 52;
  constexpr int kDegree = kFloat ? 7 : 13;
  constexpr T kLimit = kFloat ? T(87) : T(708);
  constexpr T kRound = kFloat ? T(12582912.0) : T(6755399441055744.0);
  constexpr T kLog2High =
      kFloat ? T(0.693359375) : T(6.93147180369123816490e-01);
  constexpr T kLog2Low =
      kFloat ? T(-2.12194440e-4) : T(1.90821492927058770002e-10);
  x = x > kLimit ? kLimit : x;
  x = x < -kLimit ? -kLimit : x;
  const T shifted = x * T(std::numbers::log2e) + kRound;
  const T n = shifted - kRound;
  const T r = (x - n * kLog2High) - n * kLog2Low;
  T p = T(1);
  for (int i = kDegree; i > 0; --i) {
    p = p * (r * (T(1) / T(i))) + T(1);
  }
  return std::bit_cast<T>(std::bit_cast<Bits>(p) +
                          (std::bit_cast<Bits>(shifted) << kMantissa));
}

template <typename T>
OPPA_INLINE T Tanh(T x) {
  return T(1) - T(2) / (Exp(T(2) * x) + T(1));
}

constexpr double kGeluScale = 0.7978845608028654;  // sqrt(2 / pi)
constexpr double kGeluCube = 0.044715;

template <typename T>
OPPA_INLINE void SoftmaxRowOf(std::int64_t valid, std::int64_t count, T scale,
                              T* p) {
  T max = p[0];
#pragma omp simd reduction(max : max)
  for (std::int64_t i = 0; i < valid; ++i) {
    max = p[i] > max ? p[i] : max;
  }
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < valid; ++i) {
    p[i] = Exp(scale * (p[i] - max));
    sum += p[i];
  }
  const T inverse = T(1) / sum;
#pragma omp simd
  for (std::int64_t i = 0; i < valid; ++i) {
    p[i] *= inverse;
  }
  for (std::int64_t i = valid; i < count; ++i) {
    p[i] = 0;
  }
}

template <typename T>
OPPA_INLINE void SoftmaxGradientRowOf(std::int64_t count, T scale, const T* p,
                                      T* d) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) {
    sum += p[i] * d[i];
  }
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    d[i] = scale * p[i] * (d[i] - sum);
  }
}

template <typename T>
OPPA_INLINE void NormForwardRowOf(const NormRow<T>& norm, const T* x, T* y,
                                  T* statistics) {
  const std::int64_t cols = norm.cols;
  T mean = 0;
  if (norm.kind == NormKind::kLayer) {
#pragma omp simd reduction(+ : mean)
    for (std::int64_t i = 0; i < cols; ++i) {
      mean += x[i];
    }
    mean /= static_cast<T>(cols);
  }
  T square = 0;
#pragma omp simd reduction(+ : square)
  for (std::int64_t i = 0; i < cols; ++i) {
    square += (x[i] - mean) * (x[i] - mean);
  }
  const T rstd = T(1) / std::sqrt(square / static_cast<T>(cols) + norm.epsilon);
  statistics[0] = mean;
  statistics[1] = rstd;
  const T* scale = norm.scale;
  const T* shift = norm.shift;
  if (shift == nullptr) {
#pragma omp simd
    for (std::int64_t i = 0; i < cols; ++i) {
      y[i] = (x[i] - mean) * rstd * scale[i];
    }
    return;
  }
#pragma omp simd
  for (std::int64_t i = 0; i < cols; ++i) {
    y[i] = (x[i] - mean) * rstd * scale[i] + shift[i];
  }
}

template <typename T>
OPPA_INLINE void NormBackwardRowOf(const NormRow<T>& norm, const T* dy,
                                   const T* x, const T* statistics, T* dx,
                                   T* dscale, T* dshift) {
  const std::int64_t cols = norm.cols;
  const T mean = statistics[0];
  const T rstd = statistics[1];
  const T* scale = norm.scale;
  T sum = 0;
  T product = 0;
#pragma omp simd reduction(+ : sum, product)
  for (std::int64_t i = 0; i < cols; ++i) {
    const T g = dy[i] * scale[i];
    sum += g;
    product += g * (x[i] - mean) * rstd;
  }
  sum = norm.kind == NormKind::kLayer ? sum / static_cast<T>(cols) : T(0);
  product /= static_cast<T>(cols);
#pragma omp simd
  for (std::int64_t i = 0; i < cols; ++i) {
    const T normal = (x[i] - mean) * rstd;
    dscale[i] += dy[i] * normal;
    dx[i] += rstd * (dy[i] * scale[i] - sum - normal * product);
  }
  if (dshift != nullptr) {
#pragma omp simd
    for (std::int64_t i = 0; i < cols; ++i) {
      dshift[i] += dy[i];
    }
  }
}

template <typename T>
OPPA_INLINE void ActivationForwardRowOf(Activation kind, std::int64_t cols,
                                        const T* x, T* y) {
  if (kind == Activation::kSwiGlu) {
#pragma omp simd
    for (std::int64_t i = 0; i < cols; ++i) {
      y[i] = x[i] / (T(1) + Exp(-x[i])) * x[cols + i];
    }
    return;
  }
  if (kind == Activation::kGeluTanh) {
#pragma omp simd
    for (std::int64_t i = 0; i < cols; ++i) {
      const T inner =
          T(kGeluScale) * (x[i] + T(kGeluCube) * x[i] * x[i] * x[i]);
      y[i] = T(0.5) * x[i] * (T(1) + Tanh(inner));
    }
    return;
  }
  for (std::int64_t i = 0; i < cols; ++i) {
    y[i] = T(0.5) * x[i] * (T(1) + std::erf(x[i] / std::numbers::sqrt2_v<T>));
  }
}

template <typename T>
OPPA_INLINE void ActivationBackwardRowOf(Activation kind, std::int64_t cols,
                                         const T* dy, const T* x, T* dx) {
  if (kind == Activation::kSwiGlu) {
#pragma omp simd
    for (std::int64_t i = 0; i < cols; ++i) {
      const T sigmoid = T(1) / (T(1) + Exp(-x[i]));
      const T gate = x[i] * sigmoid;
      dx[i] = dy[i] * x[cols + i] * (sigmoid + gate * (T(1) - sigmoid));
      dx[cols + i] = dy[i] * gate;
    }
    return;
  }
  if (kind == Activation::kGeluTanh) {
#pragma omp simd
    for (std::int64_t i = 0; i < cols; ++i) {
      const T square = x[i] * x[i];
      const T tanh =
          Tanh(T(kGeluScale) * (x[i] + T(kGeluCube) * square * x[i]));
      const T slope = T(kGeluScale) * (T(1) + T(3 * kGeluCube) * square);
      dx[i] =
          dy[i] * T(0.5) * (T(1) + tanh + x[i] * (T(1) - tanh * tanh) * slope);
    }
    return;
  }
  for (std::int64_t i = 0; i < cols; ++i) {
    const T density = Exp(T(-0.5) * x[i] * x[i]) *
                      T(0.5 * std::numbers::inv_sqrtpi * std::numbers::sqrt2);
    const T share = T(0.5) * (T(1) + std::erf(x[i] / std::numbers::sqrt2_v<T>));
    dx[i] = dy[i] * (share + x[i] * density);
  }
}

template <typename T>
OPPA_INLINE void AddToOf(std::int64_t count, const T* from, T* to) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] += from[i];
  }
}

template <typename T>
OPPA_INLINE void AddScaledOf(std::int64_t count, T factor, const T* from,
                             T* to) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] += factor * from[i];
  }
}

template <typename T>
OPPA_INLINE T DotOf(std::int64_t count, const T* a, const T* b) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}

template <typename T>
OPPA_INLINE T MaximumOf(std::int64_t count, const T* x) {
  T max = x[0];
#pragma omp simd reduction(max : max)
  for (std::int64_t i = 0; i < count; ++i) {
    max = x[i] > max ? x[i] : max;
  }
  return max;
}

template <typename T>
OPPA_INLINE T SumExpOf(std::int64_t count, T shift, const T* x) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < count; ++i) {
    sum += Exp(x[i] - shift);
  }
  return sum;
}

template <typename T>
OPPA_INLINE void ScaledExpOf(std::int64_t count, T shift, T factor, T* x) {
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    x[i] = factor * Exp(x[i] - shift);
  }
}

template <typename T>
OPPA_INLINE void AdamRowOf(const AdamOptions& options, std::int64_t count,
                           const T* gradient, T* master, T* first, T* second,
                           T* weights) {
  const T beta1 = static_cast<T>(options.beta1);
  const T beta2 = static_cast<T>(options.beta2);
  const T rate = static_cast<T>(options.learning_rate);
  const T epsilon = static_cast<T>(options.epsilon);
  const T decay = T(1) - rate * static_cast<T>(options.weight_decay);
  const T unbias1 =
      static_cast<T>(1.0 / (1.0 - std::pow(options.beta1, options.step)));
  const T unbias2 =
      static_cast<T>(1.0 / (1.0 - std::pow(options.beta2, options.step)));
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) {
    const T g = gradient[i];
    first[i] = beta1 * first[i] + (T(1) - beta1) * g;
    second[i] = beta2 * second[i] + (T(1) - beta2) * g * g;
    master[i] =
        decay * master[i] - rate * (first[i] * unbias1) /
                                (std::sqrt(second[i] * unbias2) + epsilon);
    weights[i] = master[i];
  }
}

}  // namespace

// The functions of row_kernels.h for one type: only specializations can have
// versions.
#define OPPA_ROW_KERNELS(T)                                                    \
  OPPA_VERSIONS void SoftmaxRow(std::int64_t valid, std::int64_t count,        \
                                T scale, T* p) {                               \
    SoftmaxRowOf(valid, count, scale, p);                                      \
  }                                                                            \
  OPPA_VERSIONS void SoftmaxGradientRow(std::int64_t count, T scale,           \
                                        const T* p, T* d) {                    \
    SoftmaxGradientRowOf(count, scale, p, d);                                  \
  }                                                                            \
  OPPA_VERSIONS void NormForwardRow(const NormRow<T>& norm, const T* x, T* y,  \
                                    T* statistics) {                           \
    NormForwardRowOf(norm, x, y, statistics);                                  \
  }                                                                            \
  OPPA_VERSIONS void NormBackwardRow(const NormRow<T>& norm, const T* dy,      \
                                     const T* x, const T* statistics, T* dx,   \
                                     T* dscale, T* dshift) {                   \
    NormBackwardRowOf(norm, dy, x, statistics, dx, dscale, dshift);            \
  }                                                                            \
  OPPA_VERSIONS void ActivationForwardRow(Activation kind, std::int64_t cols,  \
                                          const T* x, T* y) {                  \
    ActivationForwardRowOf(kind, cols, x, y);                                  \
  }                                                                            \
  OPPA_VERSIONS void ActivationBackwardRow(Activation kind, std::int64_t cols, \
                                           const T* dy, const T* x, T* dx) {   \
    ActivationBackwardRowOf(kind, cols, dy, x, dx);                            \
  }                                                                            \
  OPPA_VERSIONS void AddTo(std::int64_t count, const T* from, T* to) {         \
    AddToOf(count, from, to);                                                  \
  }                                                                            \
  OPPA_VERSIONS void AddScaled(std::int64_t count, T factor, const T* from,    \
                               T* to) {                                        \
    AddScaledOf(count, factor, from, to);                                      \
  }                                                                            \
  OPPA_VERSIONS T Dot(std::int64_t count, const T* a, const T* b) {            \
    return DotOf(count, a, b);                                                 \
  }                                                                            \
  OPPA_VERSIONS T Maximum(std::int64_t count, const T* x) {                    \
    return MaximumOf(count, x);                                                \
  }                                                                            \
  OPPA_VERSIONS T SumExp(std::int64_t count, T shift, const T* x) {            \
    return SumExpOf(count, shift, x);                                          \
  }                                                                            \
  OPPA_VERSIONS void ScaledExp(std::int64_t count, T shift, T factor, T* x) {  \
    ScaledExpOf(count, shift, factor, x);                                      \
  }                                                                            \
  OPPA_VERSIONS void AdamRow(const AdamOptions& options, std::int64_t count,   \
                             const T* gradient, T* master, T* first,           \
                             T* second, T* weights) {                          \
    AdamRowOf(options, count, gradient, master, first, second, weights);       \
  }

OPPA_ROW_KERNELS(float)
OPPA_ROW_KERNELS(double)

}  // namespace trainer
