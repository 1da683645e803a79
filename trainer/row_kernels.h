// The operators on rows of the CPU device, vectorized for several processors.
// Each exists for float and double and does what device.h says about it.

#pragma once

#include <cstdint>

#include "trainer/device.h"

namespace trainer {

// p[i] = exp(scale (p[i] - max)) / sum for i < valid, 0 up to `count`.
template <typename T>
void SoftmaxRow(std::int64_t valid, std::int64_t count, T scale, T* p);
// d[i] = scale p[i] (d[i] - sum_j d[j] p[j]): the gradient of a softmax.
template <typename T>
void SoftmaxGradientRow(std::int64_t count, T scale, const T* p, T* d);

template <typename T>
struct NormRow {
  NormKind kind = NormKind::kRms;
  std::int64_t cols = 0;
  const T* scale = nullptr;
  const T* shift = nullptr;  // may be null
  T epsilon = 0;             // of the forward
};
// statistics: mean and rstd.
template <typename T>
void NormForwardRow(const NormRow<T>& norm, const T* x, T* y, T* statistics);
template <typename T>
void NormBackwardRow(const NormRow<T>& norm, const T* dy, const T* x,
                     const T* statistics, T* dx, T* dscale, T* dshift);

// One row. A gated row has 2 cols inputs.
template <typename T>
void ActivationForwardRow(Activation kind, std::int64_t cols, const T* x, T* y);
template <typename T>
void ActivationBackwardRow(Activation kind, std::int64_t cols, const T* dy,
                           const T* x, T* dx);

template <typename T>
void AddTo(std::int64_t count, const T* from, T* to);
// to += factor * from.
template <typename T>
void AddScaled(std::int64_t count, T factor, const T* from, T* to);
template <typename T>
T Dot(std::int64_t count, const T* a, const T* b);
template <typename T>
T Maximum(std::int64_t count, const T* x);
// sum_i exp(x[i] - shift).
template <typename T>
T SumExp(std::int64_t count, T shift, const T* x);
// x[i] = factor exp(x[i] - shift).
template <typename T>
void ScaledExp(std::int64_t count, T shift, T factor, T* x);

template <typename T>
void AdamRow(const AdamOptions& options, std::int64_t count, const T* gradient,
             T* master, T* first, T* second, T* weights);

}  // namespace trainer
