#include "surrogates/gp/triangular.h"

#include <algorithm>
#include <cmath>

#include "surrogates/gp/lanes.h"

namespace surrogates {
namespace {

// Rows i... and columns j... of X X^T, X [n, .], from the terms [begin, end).
// In two of the rows that are left when groups are taken, Eigen adds up even
// and odd terms apart, by eights.
template <int kWidth>
OPPA_INLINE Block<kWidth> Squares(const double* x, Index n, Index i, Index j,
                                  Index begin, Index end) {
  const Index stride = Padded(n);
  const auto add = [&](Block<kWidth> & to, Index from, Index until, Index step)
      __attribute__((always_inline)) {
    to.AddProducts({x + j, 1, stride}, x + i, stride, from, until, step);
  };
  Block<kWidth> sum;
  add(sum, begin, end, 1);
  const Index left = n / kGroup * kGroup;
  if (n - left < 2 || j >= left || i + kLanes <= left) {
    return sum;
  }
  const Index eights = begin + (end - begin) / 8 * 8;
  Block<kWidth> apart;
  Block<kWidth> odd;
  add(apart, begin, eights, 2);
  add(odd, begin + 1, eights, 2);
  for (Index r = 0; r < kGroup; ++r) {
    apart.Add(r, odd, r, 1.0);
  }
  add(apart, eights, end, 1);
  double lanes[kGroup][kLanes];
  double lanes_apart[kGroup][kLanes];
  sum.Store(lanes[0], kLanes, kGroup);
  apart.Store(lanes_apart[0], kLanes, kGroup);
  for (Index r = 0; r < kGroup; ++r) {
    std::copy_n(lanes_apart[r] + (left - i), 2, lanes[r] + (left - i));
  }
  sum.Load(lanes[0], kLanes, kGroup);
  return sum;
}

// Takes what the blocks of columns before [begin, end) explain off the diagonal
// block or, with `below`, sets the rows of L below it.
template <int kWidth>
OPPA_INLINE void SetRows(double* a, Index n, Index block, Index begin,
                         Index end, bool below) {
  for (Index i = below ? end : begin; i < (below ? n : end); i += kLanes) {
    for (Index j = begin; j < end; j += kGroup) {
      const Index count = std::min(kGroup, n - j);
      const Index known = below ? j : begin;
      double* const to = a + j * Padded(n) + i;
      Block<kWidth> x;
      x.Load(to, Padded(n), count);
      for (Index b = 0; b < known; b += block) {
        x.Subtract(Squares<kWidth>(a, n, i, j, b, std::min(b + block, known)));
      }
      if (below) {
        x.Solve(a + j * Padded(n) + j, Padded(n), kGroup);
      }
      x.Store(to, Padded(n), count);
    }
  }
}

template <int kWidth>
OPPA_INLINE bool FactorizeDiagonal(double* a, Index n, Index begin, Index end) {
  for (Index k = begin; k < end; ++k) {
    double* const column = a + k * Padded(n);
    for (Index i = k / kLanes * kLanes; i < end; i += kLanes) {
      Block<kWidth> x;
      Block<kWidth> sum;
      x.Load(column + i, Padded(n), 1);
      for (Index q = begin; q < k; ++q) {
        Block<kWidth> other;
        other.Load(a + q * Padded(n) + i, Padded(n), 1);
        sum.Add(0, other, 0, a[q * Padded(n) + k]);
      }
      x.Add(0, sum, 0, -1.0);
      x.Store(column + i, Padded(n), 1);
    }
    if (column[k] <= 0.0) {
      return false;
    }
    column[k] = std::sqrt(column[k]);
    for (Index i = k + 1; i < end; ++i) {
      column[i] /= column[k];
    }
  }
  return true;
}

template <int kWidth>
OPPA_INLINE bool CholeskyOf(double* a, int n) {
  const Index block = n < 32 ? n : std::clamp(n / 8 / 16 * 16, 8, 128);
  for (Index begin = 0; begin < n; begin += block) {
    const Index end = std::min<Index>(begin + block, n);
    SetRows<kWidth>(a, n, block, begin, end, false);
    if (!FactorizeDiagonal<kWidth>(a, n, begin, end)) {
      return false;
    }
    SetRows<kWidth>(a, n, block, begin, end, true);
  }
  return true;
}

// Rows [i, i + 4) of L^-1 B for kLanes columns, whose rows before `first` are
// zero and those before i known.
template <int kWidth>
OPPA_INLINE void SolveForward(const double* l, Index n, Index i, Index first,
                              double* b, Index stride) {
  const Index count = std::min(kGroup, n - i);
  Block<kWidth> x;
  x.Load(b + i * stride, stride, count);
  for (Index k = first; k < i; k += kGroup) {
    Block<kWidth> sum;
    sum.AddProducts({l + i, 1, Padded(n)}, b, stride, k, k + kGroup);
    x.Subtract(sum);
  }
  x.Solve(l + i * Padded(n) + i, Padded(n), count);
  x.Store(b + i * stride, stride, count);
}

// Rows [i, end) of L^-T B for kLanes columns, whose rows from `end` on are
// known.
template <int kWidth>
OPPA_INLINE void SolveBackward(const double* l, Index n, Index end, double* b,
                               Index stride) {
  const Index i = std::max<Index>(end - kGroup, 0);
  const double* const below = l + i * Padded(n);
  Block<kWidth> x;
  x.Load(b + i * stride, stride, end - i);
  for (Index k = n - kGroup; k >= end; k -= kGroup) {
    Block<kWidth> sum;
    sum.AddProducts({below, Padded(n), 1}, b, stride, k, k + kGroup);
    x.Subtract(sum);
  }
  for (Index r = end - i - 1; r >= 0; --r) {
    Block<kWidth> sum;
    for (Index s = r + 1; s < end - i; ++s) {
      sum.Add(0, x, s, below[r * Padded(n) + i + s]);
    }
    x.Add(r, sum, 0, -1.0);
    x.Scale(r, 1.0 / below[r * Padded(n) + i + r]);
  }
  x.Store(b + i * stride, stride, end - i);
}

template <int kWidth>
OPPA_INLINE void CholeskySolveOf(const double* l, int n, double* b, int m) {
  for (Index c = 0; c < m; c += kLanes) {
    for (Index i = 0; i < n; i += kGroup) {
      SolveForward<kWidth>(l, n, i, 0, b + c, Padded(m));
    }
    for (Index end = n; end > 0; end -= kGroup) {
      SolveBackward<kWidth>(l, n, end, b + c, Padded(m));
    }
  }
}

template <int kWidth>
OPPA_INLINE void InvertTriangleOf(const double* l, int n, double* inverse) {
  std::fill_n(inverse, n * Padded(n), 0.0);
  for (Index i = 0; i < n; ++i) {
    inverse[i * Padded(n) + i] = 1.0;
  }
  for (Index c = 0; c < n; c += kLanes) {
    for (Index i = c; i < n; i += kGroup) {
      SolveForward<kWidth>(l, n, i, c, inverse + c, Padded(n));
    }
  }
}

template <int kWidth>
OPPA_INLINE void TriangularSquaresOf(const double* x, int n, double* product) {
  for (Index j = 0; j < n; j += kGroup) {
    for (Index i = j / kLanes * kLanes; i < n; i += kLanes) {
      Squares<kWidth>(x, n, i, j, i, n)
          .Store(product + j * Padded(n) + i, Padded(n),
                 std::min(kGroup, n - j));
    }
  }
}

template <int kWidth>
OPPA_INLINE void SubtractSquaresOf(const double* x, int n, int m,
                                   double* product) {
  for (Index j = 0; j < n; j += kGroup) {
    const Index count = std::min(kGroup, n - j);
    for (Index i = j / kLanes * kLanes; i < n; i += kLanes) {
      double* const to = product + j * Padded(n) + i;
      Block<kWidth> rest;
      rest.Load(to, Padded(n), count);
      rest.Subtract(Squares<kWidth>(x, n, i, j, 0, m));
      rest.Store(to, Padded(n), count);
    }
  }
}

}  // namespace

OPPA_VERSIONS(bool, Cholesky, (double* a, int n), (a, n))
OPPA_VERSIONS(void, CholeskySolve, (const double* l, int n, double* b, int m),
              (l, n, b, m))
OPPA_VERSIONS(void, InvertTriangle, (const double* l, int n, double* inverse),
              (l, n, inverse))
OPPA_VERSIONS(void, TriangularSquares,
              (const double* x, int n, double* product), (x, n, product))
OPPA_VERSIONS(void, SubtractSquares,
              (const double* x, int n, int m, double* product),
              (x, n, m, product))

}  // namespace surrogates
