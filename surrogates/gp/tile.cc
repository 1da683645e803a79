#include "surrogates/gp/tile.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

// Sanitizers run before the dynamic linker could choose a version.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define OPPA_VERSIONS \
  __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define OPPA_VERSIONS
#endif

namespace surrogates {
namespace {

constexpr double kFarthest = 700.0;  // exp(-700) is still a normal number

// exp(x), |x| <= 700, without a branch: 2^n exp(r), n = round(x / log 2), |r| <
// 0.35, with Taylor's polynomial of degree 13 (remainder below 1e-17).
[[gnu::always_inline]] inline double Exp(double x) {
  constexpr double kInverseLog2 = 1.4426950408889634;
  constexpr double kLog2High = 6.93147180369123816490e-01;  // 33 bits
  constexpr double kLog2Low = 1.90821492927058770002e-10;
  // Adding it leaves the whole part of a small number in the lowest bits.
  constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52
  const double shifted = x * kInverseLog2 + kRound;
  const double n = shifted - kRound;
  const double r = (x - n * kLog2High) - n * kLog2Low;
  double p = 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  const std::uint64_t exponent = std::bit_cast<std::uint64_t>(shifted) << 52;
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(p) + exponent);
}

}  // namespace

OPPA_VERSIONS
void MaternTile(const double* points, int n, int d, const double* tile,
                double* correlation) {
  for (int i = 0; i < n; ++i) {
    double square[kTile] = {};
    for (int k = 0; k < d; ++k) {
      const double x = points[i * d + k];
      const double* z = tile + static_cast<std::ptrdiff_t>(k) * kTile;
      for (int t = 0; t < kTile; ++t) {
        const double difference = z[t] - x;
        square[t] += difference * difference;
      }
    }
    double* out = correlation + static_cast<std::ptrdiff_t>(i) * kTile;
    for (int t = 0; t < kTile; ++t) {
      const double a =
          std::sqrt(std::min(5.0 * square[t], kFarthest * kFarthest));
      out[t] = (1.0 + a * (1.0 + a * (1.0 / 3.0))) * Exp(-a);
    }
  }
}

OPPA_VERSIONS
void TriangularSquaresTile(const double* lower, int n, const double* k,
                           double* sum) {
  double total[kTile] = {};
  for (int i = 0; i < n; ++i) {
    double row[kTile] = {};
    for (int j = 0; j <= i; ++j) {
      const double weight = lower[i * n + j];
      for (int t = 0; t < kTile; ++t) {
        row[t] += weight * k[j * kTile + t];
      }
    }
    for (int t = 0; t < kTile; ++t) {
      total[t] += row[t] * row[t];
    }
  }
  for (int t = 0; t < kTile; ++t) {
    sum[t] = total[t];
  }
}

OPPA_VERSIONS
void ProductTile(const double* weights, int m, int n, const double* k,
                 double* out) {
  for (int j = 0; j < m; ++j) {
    double row[kTile] = {};
    for (int i = 0; i < n; ++i) {
      const double weight = weights[j * n + i];
      for (int t = 0; t < kTile; ++t) {
        row[t] += weight * k[i * kTile + t];
      }
    }
    for (int t = 0; t < kTile; ++t) {
      out[j * kTile + t] = row[t];
    }
  }
}

}  // namespace surrogates
