#include "trainer/device_cpu.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <numbers>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace trainer::device_cpu_test {

using Numbers = std::vector<double>;
using Integers = std::vector<std::int32_t>;

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

Tensor View(Integers& integers) {
  return {reinterpret_cast<std::byte*>(integers.data()),
          static_cast<std::int64_t>(integers.size()), sizeof(std::int32_t)};
}

class CpuDevice : public ::testing::Test {
 protected:
  static void ExpectNear(const Numbers& actual, const Numbers& expected) {
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < actual.size(); ++i) {
      EXPECT_NEAR(actual[i], expected[i], 1e-12) << i;
    }
  }

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

TEST_F(CpuDevice, SwappingTransposesRows) {
  Memory from({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  Memory to(12);
  device_->SwapLeading(2, 3, 2, from.get(), to.get());
  EXPECT_EQ(to.numbers(), (Numbers{1, 2, 7, 8, 3, 4, 9, 10, 5, 6, 11, 12}));
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

// Three tokens from the second of sequences of two, whose positions begin at 1;
// a token has two heads of two columns and a column that is not rotated.
TEST_F(CpuDevice, HeadsAreRotatedByTheAngleOfTheirPosition) {
  const Positions positions{.begin = 1, .rows = 3, .length = 2, .offset = 1};
  const double half = std::numbers::sqrt3 / 2;
  // Of positions 0, 1 and 2: 0, 30 and 90 degrees.
  Memory table({1.0, 0.0, half, 0.5, 0.0, 1.0});
  const Numbers before = {2, 4, 6, 8, 1, 2, 4, 6, 8, 1, 2, 4, 6, 8, 1};
  Memory x(before);
  RotateArgs args{positions, 2, 2, 5, false, table.get(), x.get()};
  device_->Rotate(args);
  const Numbers quarter = {-4, 2, -8, 6, 1};  // position 2
  Numbers expected = quarter;
  for (const auto& [u, v] : {std::pair{2.0, 4.0}, std::pair{6.0, 8.0}}) {
    expected.push_back(half * u - 0.5 * v);
    expected.push_back(half * v + 0.5 * u);
  }
  expected.push_back(1);
  expected.insert(expected.end(), quarter.begin(), quarter.end());
  ExpectNear(x.numbers(), expected);
  args.backward = true;
  device_->Rotate(args);
  ExpectNear(x.numbers(), before);
}

TEST_F(CpuDevice, PositionsAreAddedInEachSequence) {
  const Positions positions{.begin = 1, .rows = 3, .length = 2, .offset = 1};
  Memory table({1, 2, 10, 20, 100, 200});
  Memory x({0, 0, 1, 1, 2, 2});
  device_->AddPositions(positions, 2, table.get(), x.get());
  EXPECT_EQ(x.numbers(), (Numbers{100, 200, 11, 21, 102, 202}));
  Memory dtable({5, 5, 5, 5, 5, 5});
  Memory dx({1, 2, 3, 4, 5, 6});
  device_->PositionsBackward(positions, 2, dx.get(), dtable.get());
  EXPECT_EQ(dtable.numbers(), (Numbers{5, 5, 8, 9, 11, 13}));
}

// A table of the tokens 4 and 5.
TEST_F(CpuDevice, TokensOfOtherRanksAreZero) {
  Integers tokens = {3, 4, 5, 6, 4};
  Memory table({1, 2, 3, 4});
  Memory out(10);
  EmbeddingArgs args{5, 2, 4, 2, View(tokens), table.get(), out.get(), {}, {}};
  device_->EmbeddingForward(args);
  EXPECT_EQ(out.numbers(), (Numbers{0, 0, 1, 2, 3, 4, 0, 0, 1, 2}));
  Memory dtable({100, 100, 100, 100});
  Memory dout({1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  args.dout = dout.get();
  args.dtable = dtable.get();
  device_->EmbeddingBackward(args);
  EXPECT_EQ(dtable.numbers(), (Numbers{112, 114, 105, 106}));
}

// Four rows of logits of the labels 2 and 3, with a column that is not valid:
// both labels of this rank, one of another rank, and none.
TEST_F(CpuDevice, TheLossIsTheCrossEntropyOfTheRowsWithALabel) {
  const double log2 = std::log(2.0);
  const double log3 = std::log(3.0);
  Memory logits({log3, 0, 9, log3, log2, 9, 0, 0, 9, 1, 1, 9});
  Integers labels = {2, 3, 1, -1};
  Memory maxima(4);
  Memory sums(8);
  Memory loss(Numbers{10.0});
  const LossArgs args{4,
                      2,
                      3,
                      2,
                      0.5,
                      logits.get(),
                      View(labels),
                      maxima.get(),
                      sums.get(),
                      loss.get()};
  device_->LossMaxima(args);
  EXPECT_EQ(maxima.numbers(), (Numbers{log3, log3, 0, 1}));
  device_->LossSums(args);
  ExpectNear(sums.numbers(),
             {4.0 / 3, 0.0, 5.0 / 3, log2 - log3, 2.0, 0.0, 2.0, 0.0});
  device_->LossBackward(args);
  ExpectNear(logits.numbers(),
             {0.5 * (0.75 - 1), 0.5 * 0.25, 0, 0.5 * 0.6, 0.5 * (0.4 - 1), 0,
              0.5 * 0.5, 0.5 * 0.5, 0, 0, 0, 0});
  ExpectNear(loss.numbers(),
             {10 + std::log(4.0 / 3) + std::log(5.0 / 2) + log2});
}

// Of equal experts the first ones; weights are a softmax of those chosen.
TEST_F(CpuDevice, TokensGoToTheExpertsOfTheLargestLogits) {
  const double log3 = std::log(3.0);
  Memory logits({0, log3, -1, log3 + std::log(3.0), 2, 2, 2, 2});
  Integers chosen(4);
  Memory weights(4);
  RouteArgs args{2, 4, 2, logits.get(), View(chosen), weights.get(), {}, {}};
  device_->RouteForward(args);
  EXPECT_EQ(chosen, (Integers{3, 1, 0, 1}));
  ExpectNear(weights.numbers(), {0.75, 0.25, 0.5, 0.5});
  Memory dweights({1, 5, 3, 3});
  Memory dlogits(8);
  args.dweights = dweights.get();
  args.dlogits = dlogits.get();
  device_->RouteBackward(args);
  // The mean of 1 and 5 is 2.
  ExpectNear(dlogits.numbers(), {0, 0.25 * 3, 0, 0.75 * -1, 0, 0, 0, 0});
}

TEST_F(CpuDevice, RowsAreScatteredToTheirSlotsAndCombined) {
  Integers slots = {3, 0, 1, 2};  // of two tokens
  Memory from({1, 2, 10, 20});
  Memory weights({0.5, 2, 3, 4});
  Memory to(8);
  const auto args = [&](Memory& in, Tensor factors, Memory& out) {
    return SlotArgs{2, 2, 2, in.get(), View(slots), factors, out.get()};
  };
  device_->ScatterRows(args(from, {}, to));
  EXPECT_EQ(to.numbers(), (Numbers{1, 2, 10, 20, 10, 20, 1, 2}));
  device_->ScatterRows(args(from, weights.get(), to));
  EXPECT_EQ(to.numbers(), (Numbers{2, 4, 30, 60, 40, 80, 0.5, 1}));
  Memory back(4);
  device_->CombineRows(args(to, {}, back));
  EXPECT_EQ(back.numbers(), (Numbers{2.5, 5, 70, 140}));
  device_->CombineRows(args(to, weights.get(), back));
  EXPECT_EQ(back.numbers(), (Numbers{4.25, 8.5, 250, 500}));
  Memory dweights(4);
  device_->CombineWeights(args(to, {}, back), from.get(), dweights.get());
  EXPECT_EQ(dweights.numbers(), (Numbers{2.5, 10, 1500, 2000}));
}

TEST_F(CpuDevice, MemoryThatCannotBeMappedIsOutOfMemory) {
  EXPECT_THROW((void)device_->Reserve(std::int64_t{1} << 62), std::bad_alloc);
}

}  // namespace trainer::device_cpu_test
