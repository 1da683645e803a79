#include "trainer/device_cpu.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace trainer::device_cpu_test {

using Numbers = std::vector<double>;

constexpr double kGuard = 77.0;
constexpr std::size_t kGuards = 8;  // behind what may be written

// A tensor with memory of its own and a guard.
class Memory {
 public:
  explicit Memory(Numbers numbers)
      : size_(static_cast<std::int64_t>(numbers.size())),
        numbers_(std::move(numbers)) {
    numbers_.insert(numbers_.end(), kGuards, kGuard);
  }
  explicit Memory(std::int64_t size)
      : Memory(Numbers(static_cast<std::size_t>(size), kGuard)) {}

  [[nodiscard]] Tensor get() {
    return {reinterpret_cast<std::byte*>(numbers_.data()), size_,
            sizeof(double)};
  }
  // Without the guard, which is intact.
  [[nodiscard]] Numbers numbers() const {
    Numbers all = numbers_;
    for (std::size_t i = 0; i < kGuards; ++i) {
      EXPECT_EQ(all.back(), kGuard);
      all.pop_back();
    }
    return all;
  }

 private:
  std::int64_t size_;
  Numbers numbers_;
};

class CpuDevice : public ::testing::Test {
 protected:
  std::unique_ptr<Device> device_ = MakeCpuDevice(CpuPrecision::kDouble);
};

TEST_F(CpuDevice, MemoryIsZeroedCopiedAndAdded) {
  Memory a({1.0, 2.0, 3.0});
  Memory b(3);
  device_->Copy(a.get(), b.get());
  EXPECT_EQ(b.numbers(), (Numbers{1.0, 2.0, 3.0}));
  device_->Add(a.get(), b.get());
  EXPECT_EQ(b.numbers(), (Numbers{2.0, 4.0, 6.0}));
  device_->Zero(b.get());
  EXPECT_EQ(b.numbers(), (Numbers{0.0, 0.0, 0.0}));
  std::vector<float> floats = {1.5F, -2.5F};
  Memory wide(2);
  device_->Convert({reinterpret_cast<std::byte*>(floats.data()), 2, 4},
                   wide.get());
  EXPECT_EQ(wide.numbers(), (Numbers{1.5, -2.5}));
  device_->Convert(wide.get(), wide.get().Slice(0, 2));
  EXPECT_EQ(wide.numbers(), (Numbers{1.5, -2.5}));
  EXPECT_EQ(device_->width(), 8);
  EXPECT_EQ(MakeCpuDevice(CpuPrecision::kFloat)->width(), 4);
}

// A piece of a weight is what the whole weight has in its place.
TEST_F(CpuDevice, PiecesOfAWeightAreThoseOfTheWhole) {
  Slab whole{.key = 3,
             .rows = 4,
             .cols = 5,
             .global_rows = 4,
             .global_cols = 5,
             .scale = 0.5,
             .shift = 2.0};
  Memory all(20);
  device_->Generate(whole, all.get());
  double squares = 0.0;
  for (const double x : all.numbers()) {
    EXPECT_LT(std::abs(x - 2.0), 0.5 * 3.5);  // sums of four uniform numbers
    squares += (x - 2.0) * (x - 2.0);
  }
  EXPECT_GT(squares / 20, 0.25 * 0.25);
  Slab piece = whole;
  piece.rows = piece.cols = 3;
  piece.row_begin = 2;
  piece.col_begin = 1;
  Memory part(9);
  device_->Generate(piece, part.get());
  const Numbers numbers = all.numbers();
  const auto at = [&](std::size_t row) {
    return std::vector<double>(
        numbers.begin() + static_cast<std::ptrdiff_t>(row * 5 + 1),
        numbers.begin() + static_cast<std::ptrdiff_t>(row * 5 + 4));
  };
  Numbers expected = at(2);
  const Numbers last = at(3);
  expected.insert(expected.end(), last.begin(), last.end());
  expected.insert(expected.end(), 3, 0.0);  // a row that does not exist
  EXPECT_EQ(part.numbers(), expected);
  whole.scale = 0.0;
  device_->Generate(whole, all.get());
  EXPECT_EQ(all.numbers(), Numbers(20, 2.0));
}

TEST_F(CpuDevice, AProductWithoutNumbersChangesNothing) {
  Memory a(Numbers{2.0});
  Memory c(Numbers{5.0});
  const auto gemm = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    device_->Gemm({.m = m, .n = n, .k = k, .lda = 1, .ldb = 1, .ldc = 1},
                  a.get(), a.get(), c.get(), {});
    return c.numbers()[0];
  };
  EXPECT_EQ(gemm(0, 1, 1), 5.0);
  EXPECT_EQ(gemm(1, 0, 1), 5.0);
  EXPECT_EQ(gemm(1, 1, 0), 5.0);
  EXPECT_EQ(gemm(1, 1, 1), 4.0);
}

TEST_F(CpuDevice, MemoryThatCannotBeMappedIsOutOfMemory) {
  EXPECT_THROW((void)device_->Reserve(std::int64_t{1} << 62), std::bad_alloc);
}

}  // namespace trainer::device_cpu_test
