#include "trainer/arena.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "trainer/device_cpu.h"

namespace trainer::arena_test {

constexpr std::int64_t kUnit = Arena::kAlignment;

TEST(Arena, CountsPeaksByRegionAndReusesMemory) {
  const auto device = MakeCpuDevice(CpuPrecision::kFloat);
  Arena arena(*device, 10 * kUnit);
  {
    const Array a(arena, Region::kParameters, 1, 4);
    const Array b(arena, Region::kWorkspace, 3 * kUnit, 1);
    EXPECT_EQ(arena.used_bytes(Region::kParameters), kUnit);
  }
  const Array c(arena, Region::kGradients, 10 * kUnit, 1);
  EXPECT_EQ(arena.used_bytes(Region::kWorkspace), 0);
  EXPECT_EQ(arena.peak_bytes(Region::kWorkspace), 3 * kUnit);
  EXPECT_EQ(arena.peak_bytes(), 10 * kUnit);
  EXPECT_EQ(arena.bytes_at_peak(Region::kWorkspace), 0);
}

TEST(Arena, FreedNeighborsBecomeOneHoleInAnyOrder) {
  std::array<int, 4> order = {0, 1, 2, 3};
  do {
    const auto device = MakeCpuDevice(CpuPrecision::kFloat);
    Arena arena(*device, 4 * kUnit);
    std::array<std::byte*, 4> blocks{};
    for (std::byte*& block : blocks) {
      block = arena.Allocate(Region::kWorkspace, kUnit);
    }
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(blocks[0]) % kUnit, 0U);
    std::array<bool, 4> is_free{};
    for (const int i : order) {
      arena.Free(blocks[i]);
      is_free[i] = true;
      // The longest hole, and no more, can be allocated.
      int longest = 0;
      int length = 0;
      for (const bool free : is_free) {
        length = free ? length + 1 : 0;
        longest = std::max(longest, length);
      }
      EXPECT_THROW(
          (void)arena.Allocate(Region::kWorkspace, longest * kUnit + 1),
          OutOfMemory);
      arena.Free(arena.Allocate(Region::kWorkspace, longest * kUnit));
    }
    EXPECT_EQ(arena.used_bytes(Region::kWorkspace), 0);
    EXPECT_EQ(arena.Allocate(Region::kWorkspace, 4 * kUnit), blocks[0]);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Arena, TakesTheFirstHoleThatIsLargeEnough) {
  const auto device = MakeCpuDevice(CpuPrecision::kFloat);
  Arena arena(*device, 8 * kUnit);
  std::byte* small = arena.Allocate(Region::kWorkspace, kUnit);
  std::byte* kept = arena.Allocate(Region::kWorkspace, kUnit);
  std::byte* large = arena.Allocate(Region::kWorkspace, 2 * kUnit);
  EXPECT_EQ(arena.Allocate(Region::kWorkspace, 4 * kUnit), large + 2 * kUnit);
  arena.Free(small);
  arena.Free(large);
  EXPECT_EQ(arena.Allocate(Region::kWorkspace, 2 * kUnit), large);
  EXPECT_EQ(arena.Allocate(Region::kWorkspace, 1), small);
  EXPECT_EQ(kept, small + kUnit);
}

TEST(Arena, ThePeakIsTheFirstOfEqualOnes) {
  const auto device = MakeCpuDevice(CpuPrecision::kFloat);
  Arena arena(*device, 4 * kUnit);
  arena.Free(arena.Allocate(Region::kParameters, 2 * kUnit));
  arena.Free(arena.Allocate(Region::kGradients, 2 * kUnit));
  EXPECT_EQ(arena.peak_bytes(), 2 * kUnit);
  EXPECT_EQ(arena.bytes_at_peak(Region::kParameters), 2 * kUnit);
  EXPECT_EQ(arena.bytes_at_peak(Region::kGradients), 0);
  EXPECT_EQ(arena.peak_bytes(Region::kParameters), 2 * kUnit);
  EXPECT_EQ(arena.peak_bytes(Region::kGradients), 2 * kUnit);
}

TEST(Arena, HasWholeUnitsAndNamesWhatDoesNotFit) {
  const auto device = MakeCpuDevice(CpuPrecision::kFloat);
  Arena arena(*device, 2 * kUnit - 1);
  EXPECT_EQ(arena.capacity_bytes(), kUnit);
  try {
    (void)arena.Allocate(Region::kOptimizer, kUnit + 1);
    FAIL();
  } catch (const OutOfMemory& e) {
    EXPECT_EQ(std::string(e.what()),
              "512 bytes of optimizer do not fit: 0 of 256 bytes are in use");
  }
}

}  // namespace trainer::arena_test
