#include "trainer/arena.h"

#include <algorithm>
#include <cassert>
#include <iterator>

#include <fmt/format.h>

namespace trainer {

std::string_view RegionName(Region region) {
  constexpr std::array<std::string_view, kRegions> kNames = {
      "parameters",  "gradients",     "optimizer",
      "activations", "communication", "workspace"};
  return kNames[static_cast<std::size_t>(region)];
}

void Arena::Reserve(Device& device, std::int64_t capacity_bytes) {
  capacity_ = capacity_bytes / kAlignment * kAlignment;
  slab_ = device.Reserve(capacity_);
  free_[0] = capacity_;
}

std::byte* Arena::Allocate(Region region, std::int64_t bytes) {
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const auto hole = std::find_if(
      free_.begin(), free_.end(),
      [bytes](const auto& candidate) { return candidate.second >= bytes; });
  if (hole == free_.end()) {
    throw OutOfMemory(
        fmt::format("{} bytes of {} do not fit: {} of {} bytes are in use",
                    bytes, RegionName(region), total_, capacity_));
  }
  const std::int64_t offset = hole->first;
  const std::int64_t rest = hole->second - bytes;
  free_.erase(hole);
  if (rest > 0) {
    free_[offset + bytes] = rest;
  }
  blocks_[offset] = {bytes, region};
  used_[static_cast<int>(region)] += bytes;
  total_ += bytes;
  CountPeak();
  return slab_ + offset;
}

void Arena::CountPeak() {
  for (int i = 0; i < kRegions; ++i) {
    peak_[i] = std::max(peak_[i], used_[i]);
  }
  if (total_ > total_peak_) {
    total_peak_ = total_;
    at_peak_ = used_;
  }
}

void Arena::Free(std::byte* data) noexcept {
  const auto block = blocks_.find(data - slab_);
  assert(block != blocks_.end());
  std::int64_t offset = block->first;
  std::int64_t bytes = block->second.bytes;
  used_[static_cast<int>(block->second.region)] -= bytes;
  total_ -= bytes;
  blocks_.erase(block);
  auto next = free_.upper_bound(offset);
  if (next != free_.end() && next->first == offset + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      offset = before->first;
      bytes += before->second;
      free_.erase(before);
    }
  }
  free_[offset] = bytes;
}

}  // namespace trainer
