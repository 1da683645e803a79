// Inner loops with versions for AVX-512, AVX2 and any processor. Each sum has
// one order in all of them and nothing is fused (-ffp-contract=off): the
// results are the same to the last bit on every machine.

#pragma once

#include <cstddef>

// Defines a function by the widest of its versions that the processor has.
// `parameters` and `arguments` are in parentheses.
// NOLINTBEGIN(bugprone-macro-parentheses)
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
// NOLINTEND(bugprone-macro-parentheses)

// Compiled for the instructions of the version that calls it.
#define OPPA_INLINE [[gnu::always_inline]] inline

namespace surrogates {

// Numbers that are computed together.
inline constexpr int kLanes = 8;

// Distance of columns of n numbers. What lies between is zero and stays so.
constexpr std::ptrdiff_t Padded(std::ptrdiff_t n) {
  return (n + kLanes - 1) / kLanes * kLanes;
}

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

// a_rk is at first + r by_r + k by_k.
struct Factors {
  const double* first;
  Index by_r, by_k;
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
  // The first column += the square of column r of `other`.
  OPPA_INLINE void AddSquare(const Block& other, Index r) {
    for (int p = 0; p < kParts; ++p) {
      part[0][p] += other.part[r][p] * other.part[r][p];
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
  // b_k is at b + k stride.
  OPPA_INLINE void AddProducts(const Factors& a, const double* b, Index stride,
                               Index begin, Index end, Index step = 1) {
    for (Index k = begin; k < end; k += step) {
      Block lanes;
      lanes.Load(b + k * stride, stride, 1);
      for (Index r = 0; r < kGroup; ++r) {
        Add(r, lanes, 0, a.first[r * a.by_r + k * a.by_k]);
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

}  // namespace surrogates
