// The memory of a rank: one slab, from which everything is allocated.

#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "trainer/device.h"
#include "trainer/tensor.h"

namespace trainer {

// What memory is for. kCommunication: gathered parameters (ZeRO 3), gradients
// on their way (ZeRO 2 and 3), tokens and activations that are exchanged.
enum class Region {
  kParameters,
  kGradients,
  kOptimizer,
  kActivations,
  kCommunication,
  kWorkspace
};
inline constexpr int kRegions = 6;
[[nodiscard]] std::string_view RegionName(Region region);

// The capacity is used up. A result of a trial, see Fabric::Abort.
class OutOfMemory : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A first-fit allocator over one slab with exact counts of what is in use.
// Sizes are rounded up to kAlignment.
class Arena {
 public:
  static constexpr std::int64_t kAlignment = 256;  // bytes

  Arena() = default;  // without memory
  Arena(Device& device, std::int64_t capacity_bytes) {
    Reserve(device, capacity_bytes);
  }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Takes its memory, once.
  void Reserve(Device& device, std::int64_t capacity_bytes);
  // Errors: throws OutOfMemory.
  [[nodiscard]] std::byte* Allocate(Region region, std::int64_t bytes);
  void Free(std::byte* data) noexcept;

  [[nodiscard]] std::int64_t capacity_bytes() const { return capacity_; }
  [[nodiscard]] std::int64_t used_bytes(Region region) const {
    return used_[static_cast<int>(region)];
  }
  // The most that was in use at one time: of a region, of all together, and of
  // a region at the time of the latter.
  [[nodiscard]] std::int64_t peak_bytes(Region region) const {
    return peak_[static_cast<int>(region)];
  }
  [[nodiscard]] std::int64_t peak_bytes() const { return total_peak_; }
  [[nodiscard]] std::int64_t bytes_at_peak(Region region) const {
    return at_peak_[static_cast<int>(region)];
  }

 private:
  struct Block {
    std::int64_t bytes = 0;
    Region region = Region::kWorkspace;
  };
  void CountPeak();

  std::byte* slab_ = nullptr;
  std::int64_t capacity_ = 0;
  std::map<std::int64_t, Block> blocks_;       // by offset
  std::map<std::int64_t, std::int64_t> free_;  // offset -> bytes
  std::array<std::int64_t, kRegions> used_{}, peak_{}, at_peak_{};
  std::int64_t total_ = 0, total_peak_ = 0;
};

// Memory of an arena that is freed with the object.
class Array {
 public:
  Array() = default;
  Array(Arena& arena, Region region, std::int64_t size, int width)
      : arena_(&arena),
        tensor_{size == 0 ? nullptr : arena.Allocate(region, size * width),
                size, width} {}
  Array(Array&& other) noexcept
      : arena_(other.arena_), tensor_(std::exchange(other.tensor_, {})) {}
  Array& operator=(Array&& other) noexcept {
    if (this != &other) {
      Reset();
      arena_ = other.arena_;
      tensor_ = std::exchange(other.tensor_, {});
    }
    return *this;
  }
  ~Array() { Reset(); }

  void Reset() noexcept {
    if (tensor_.data != nullptr) {
      arena_->Free(tensor_.data);
    }
    tensor_ = {};
  }
  [[nodiscard]] const Tensor& get() const { return tensor_; }
  [[nodiscard]] bool empty() const { return tensor_.data == nullptr; }

 private:
  Arena* arena_ = nullptr;
  Tensor tensor_;
};

}  // namespace trainer
