// From the width of a tensor to the type of its elements.

#pragma once

#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "trainer/cuda/numeric.h"
#include "trainer/tensor.h"

namespace trainer::cuda {

template <typename T>
[[nodiscard]] __host__ __device__ __forceinline__ T* Of(const Tensor& tensor) {
  return reinterpret_cast<T*>(tensor.data);
}

// Calls f(T()) with the type of that width.
// Errors: throws std::invalid_argument for another width.
template <typename F>
void WithType(int width, const F& f) {
  if (width == 2) {
    f(Bf16());
  } else if (width == 4) {
    f(0.0F);
  } else {
    throw std::invalid_argument("no numbers of " + std::to_string(width) +
                                " bytes on this device");
  }
}

// Calls f(std::integral_constant) with the count of numbers that kernels load
// together: kMost, or 1 if rows of `cols` numbers or a tensor do not allow it.
template <int kMost, typename F>
void WithVectors(std::int64_t cols, std::initializer_list<Tensor> tensors,
                 const F& f) {
  bool fits = cols % kMost == 0;
  for (const Tensor& tensor : tensors) {
    fits = fits &&
           (tensor.empty() || reinterpret_cast<std::uintptr_t>(tensor.data) %
                                      (kMost * tensor.width) ==
                                  0);
  }
  if (fits) {
    f(std::integral_constant<int, kMost>());
  } else {
    f(std::integral_constant<int, 1>());
  }
}

// A count for kernels with 32-bit indices, because 64-bit divisions are slow.
// Errors: throws std::invalid_argument above 2^30.
inline unsigned ShortCount(std::int64_t count) {
  if (count > std::int64_t{1} << 30) {
    throw std::invalid_argument("a tensor has too many numbers for a kernel");
  }
  return static_cast<unsigned>(count);
}

// Calls f(Vector(), vectors, vectors per row) for rows of numbers that all have
// the width of the first tensor: as many per vector as 16 bytes have, or one.
template <typename F>
void WithRows(std::int64_t rows, std::int64_t cols,
              std::initializer_list<Tensor> tensors, const F& f) {
  WithType(tensors.begin()->width, [&](auto number) {
    using T = decltype(number);
    WithVectors<16 / static_cast<int>(sizeof(T))>(
        cols, tensors, [&](auto width) {
          f(Vector<T, width()>(), ShortCount(rows * cols / width()),
            static_cast<unsigned>(cols / width()));
        });
  });
}

// WithType for two widths.
template <typename F>
void WithTypes(int first, int second, const F& f) {
  WithType(first, [&](auto a) { WithType(second, [&](auto b) { f(a, b); }); });
}

}  // namespace trainer::cuda
