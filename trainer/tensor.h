// A view of numbers in the memory of a device.

#pragma once

#include <cstddef>
#include <cstdint>

namespace trainer {

// `size` elements of `width` bytes each. The width determines the type: 2 is
// bfloat16, 4 is float (int32 where a function takes indices), 8 is double.
struct Tensor {
  std::byte* data = nullptr;
  std::int64_t size = 0;
  int width = 0;

  [[nodiscard]] std::int64_t bytes() const { return size * width; }
  [[nodiscard]] bool empty() const { return size == 0; }
  [[nodiscard]] Tensor Slice(std::int64_t begin, std::int64_t count) const {
    return {data + begin * width, count, width};
  }
  // From `begin` to the end.
  [[nodiscard]] Tensor From(std::int64_t begin) const {
    return Slice(begin, size - begin);
  }
};

}  // namespace trainer
