// The operators on rows of the CPU device, vectorized for several processors.
// Each exists for float and double and does what device.h says about it.

#ifndef TRAINER_ROW_KERNELS_H_
#define TRAINER_ROW_KERNELS_H_

#include <cstdint>

#include "trainer/device.h"

namespace trainer {

// p[i] = exp(scale (p[i] - max)) / sum for i < valid, 0 up to `count`.
void SoftmaxRow(std::int64_t valid, std::int64_t count, float scale, float* p);
void SoftmaxRow(std::int64_t valid, std::int64_t count, double scale,
                double* p);
// d[i] = scale p[i] (d[i] - sum_j d[j] p[j]): the gradient of a softmax.
void SoftmaxGradientRow(std::int64_t count, float scale, const float* p,
                        float* d);
void SoftmaxGradientRow(std::int64_t count, double scale, const double* p,
                        double* d);

template <typename T>
struct NormRow {
  NormKind kind = NormKind::kRms;
  std::int64_t cols = 0;
  const T* scale = nullptr;
  const T* shift = nullptr;  // may be null
  T epsilon = 0;             // of the forward
};
// statistics: mean and rstd.
void NormForwardRow(const NormRow<float>& norm, const float* x, float* y,
                    float* statistics);
void NormForwardRow(const NormRow<double>& norm, const double* x, double* y,
                    double* statistics);
void NormBackwardRow(const NormRow<float>& norm, const float* dy,
                     const float* x, const float* statistics, float* dx,
                     float* dscale, float* dshift);
void NormBackwardRow(const NormRow<double>& norm, const double* dy,
                     const double* x, const double* statistics, double* dx,
                     double* dscale, double* dshift);

// One row; bias may be null. A gated row has 2 cols inputs.
void ActivationForwardRow(Activation kind, std::int64_t cols, const float* bias,
                          float* x, float* y);
void ActivationForwardRow(Activation kind, std::int64_t cols,
                          const double* bias, double* x, double* y);
void ActivationBackwardRow(Activation kind, std::int64_t cols, const float* dy,
                           const float* x, float* dx);
void ActivationBackwardRow(Activation kind, std::int64_t cols, const double* dy,
                           const double* x, double* dx);

void AddTo(std::int64_t count, const float* from, float* to);
void AddTo(std::int64_t count, const double* from, double* to);
// to += factor * from.
void AddScaled(std::int64_t count, float factor, const float* from, float* to);
void AddScaled(std::int64_t count, double factor, const double* from,
               double* to);
float Dot(std::int64_t count, const float* a, const float* b);
double Dot(std::int64_t count, const double* a, const double* b);
float Maximum(std::int64_t count, const float* x);
double Maximum(std::int64_t count, const double* x);
// sum_i exp(x[i] - shift).
float SumExp(std::int64_t count, float shift, const float* x);
double SumExp(std::int64_t count, double shift, const double* x);
// x[i] = factor exp(x[i] - shift).
void ScaledExp(std::int64_t count, float shift, float factor, float* x);
void ScaledExp(std::int64_t count, double shift, double factor, double* x);

void AdamRow(const AdamOptions& options, std::int64_t count,
             const float* gradient, float* master, float* first, float* second,
             float* weights);
void AdamRow(const AdamOptions& options, std::int64_t count,
             const double* gradient, double* master, double* first,
             double* second, double* weights);

}  // namespace trainer

#endif  // TRAINER_ROW_KERNELS_H_
