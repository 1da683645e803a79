#include "surrogates/gp/triangular.h"

#include <algorithm>
#include <cmath>

// Defines a function by the widest of its versions that the processor has.
#if defined(__x86_64__)
#define OPPA_VERSIONS(result, name, parameters, arguments)       \
  [[gnu::target("avx512f")]] static result name##8 parameters {  \
    return name##Of<8> arguments;                                \
  }                                                              \
  [[gnu::target("avx2")]] static result name##4 parameters {     \
    return name##Of<4> arguments;                                \
  }                                                              \
  result name parameters {                                       \
    return __builtin_cpu_supports("avx512f") ? name##8 arguments \
           : __builtin_cpu_supports("avx2")  ? name##4 arguments \
                                             : name##Of<2>       \
                                                  arguments;     \
  }
#else
#define OPPA_VERSIONS(result, name, parameters, arguments) \
  result name parameters { return name##Of<2> arguments; }
#endif
// Compiled for the instructions of the version that calls it.
#define OPPA_INLINE [[gnu::always_inline]] inline

namespace surrogates {
namespace {

using Index = std::ptrdiff_t;
constexpr Index kGroup = 4;  // rows or columns that are computed together

template <int kWidth>
struct Vector;  // GCC ignores a size that depends on a parameter
template <>
struct Vector<2> {
  using Type [[gnu::vector_size(16), gnu::aligned(8), gnu::may_alias]] = double;
};
template <>
struct Vector<4> {
  using Type [[gnu::vector_size(32), gnu::aligned(8), gnu::may_alias]] = double;
};
template <>
struct Vector<8> {
  using Type [[gnu::vector_size(64), gnu::aligned(8), gnu::may_alias]] = double;
};

// kLanes numbers that lie side by side, of kGroup columns (or, transposed,
// rows).
template <int kWidth>
struct Block {
  using Part = typename Vector<kWidth>::Type;
  static constexpr int kParts = kLanes / kWidth;
  Part part[kGroup][kParts] = {};

  OPPA_INLINE void Load(const double* from, Index stride, Index count) {
    for (Index r = 0; r < count; ++r) {
      for (int p = 0; p < kParts; ++p) {
        part[r][p] = reinterpret_cast<const Part*>(from + r * stride)[p];
      }
    }
  }
  OPPA_INLINE void Store(double* to, Index stride, Index count) const {
    for (Index r = 0; r < count; ++r) {
      for (int p = 0; p < kParts; ++p) {
        reinterpret_cast<Part*>(to + r * stride)[p] = part[r][p];
      }
    }
  }
  // Column r += factor column s of `other`.
  OPPA_INLINE void Add(Index r, const Block& other, Index s, double factor) {
    for (int p = 0; p < kParts; ++p) {
      part[r][p] += other.part[s][p] * factor;
    }
  }
  OPPA_INLINE void Subtract(const Block& other) {
    for (Index r = 0; r < kGroup; ++r) {
      Add(r, other, r, -1.0);
    }
  }
  OPPA_INLINE void Scale(Index r, double factor) {
    for (int p = 0; p < kParts; ++p) {
      part[r][p] *= factor;
    }
  }
  // Column r += a_rk b_k for k = begin, begin + step, ... < end, in this order;
  // a_rk is at a + r by_r + k by_k, b_k at b + k stride.
  OPPA_INLINE void AddProducts(const double* a, Index by_r, Index by_k,
                               const double* b, Index stride, Index begin,
                               Index end, Index step = 1) {
    for (Index k = begin; k < end; k += step) {
      Block lanes;
      lanes.Load(b + k * stride, stride, 1);
      for (Index r = 0; r < kGroup; ++r) {
        Add(r, lanes, 0, a[r * by_r + k * by_k]);
      }
    }
  }
  // X L^-T for `count` columns.
  OPPA_INLINE void Solve(const double* l, Index stride, Index count) {
    for (Index r = 0; r < count; ++r) {
      for (Index s = 0; s < r; ++s) {
        Add(r, *this, s, -l[s * stride + r]);
      }
      Scale(r, 1.0 / l[r * stride + r]);
    }
  }
};

// Rows i... and columns j... of X X^T, X [n, .], from the terms [begin, end).
// In two of the rows that are left when groups are taken, Eigen adds up even
// and odd terms apart, by eights.
template <int kWidth>
OPPA_INLINE Block<kWidth> Squares(const double* x, Index n, Index i, Index j,
                                  Index begin, Index end) {
  const Index stride = Padded(n);
  const auto add = [&](Block<kWidth> & to, Index from, Index until, Index step)
      __attribute__((always_inline)) {
    to.AddProducts(x + j, 1, stride, x + i, stride, from, until, step);
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
    sum.AddProducts(l + i, 1, Padded(n), b, stride, k, k + kGroup);
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
    sum.AddProducts(below, Padded(n), 1, b, stride, k, k + kGroup);
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
