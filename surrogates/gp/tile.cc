#include "surrogates/gp/tile.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "surrogates/gp/lanes.h"

namespace surrogates {
namespace {

constexpr double kFarthest = 700.0;  // exp(-700) is still a normal number

// exp(x), |x| <= 700, without a branch: 2^n exp(r), n = round(x / log 2), |r| <
// 0.35, with Taylor's polynomial of degree 13 (remainder below 1e-17).
OPPA_INLINE double Exp(double x) {
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

template <int kWidth>
OPPA_INLINE void MaternTileOf(const double* points, int n, int d,
                              const double* tile, double* correlation) {
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

template <int kWidth>
OPPA_INLINE void TriangularSquaresTileOf(const double* lower, int n,
                                         const double* k, double* sum) {
  for (Index t = 0; t < kTile; t += kLanes) {
    Block<kWidth> total;
    Index i = 0;
    for (; i + kGroup <= n; i += kGroup) {
      const double* const rows = lower + i * n;
      Block<kWidth> x;
      x.AddProducts({rows, n, 1}, k + t, kTile, 0, i);
      Block<kWidth> last;
      last.Load(k + i * kTile + t, kTile, kGroup);
      for (Index r = 0; r < kGroup; ++r) {
        for (Index s = 0; s <= r; ++s) {
          x.Add(r, last, s, rows[r * n + i + s]);
        }
        total.AddSquare(x, r);
      }
    }
    for (; i < n; ++i) {
      Block<kWidth> x;
      x.AddProducts({lower + i * n, 0, 1}, k + t, kTile, 0, i + 1);
      total.AddSquare(x, 0);
    }
    total.Store(sum + t, kTile, 1);
  }
}

template <int kWidth>
OPPA_INLINE void ProductTileOf(const double* weights, int m, int n,
                               const double* k, double* out) {
  for (Index t = 0; t < kTile; t += kLanes) {
    Index j = 0;
    for (; j + kGroup <= m; j += kGroup) {
      Block<kWidth> x;
      x.AddProducts({weights + j * n, n, 1}, k + t, kTile, 0, n);
      x.Store(out + j * kTile + t, kTile, kGroup);
    }
    for (; j < m; ++j) {
      Block<kWidth> x;
      x.AddProducts({weights + j * n, 0, 1}, k + t, kTile, 0, n);
      x.Store(out + j * kTile + t, kTile, 1);
    }
  }
}

}  // namespace

OPPA_VERSIONS(void, MaternTile,
              (const double* points, int n, int d, const double* tile,
               double* correlation),
              (points, n, d, tile, correlation))
OPPA_VERSIONS(void, TriangularSquaresTile,
              (const double* lower, int n, const double* k, double* sum),
              (lower, n, k, sum))
OPPA_VERSIONS(void, ProductTile,
              (const double* weights, int m, int n, const double* k,
               double* out),
              (weights, m, n, k, out))

}  // namespace surrogates
