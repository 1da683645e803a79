#include "jobs/tune/loss_change.h"

#include <cmath>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace jobs::loss_change_test {

using trials::LossCurve;

// A loss that falls from 10.5, with a batch noise of 0.05.
LossCurve Curve(int seed, double offset = 0.0, int first = 1, int steps = 19) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0.0, 0.05);
  LossCurve curve;
  for (int i = 0; i < steps; ++i) {
    curve[first + i] =
        7.0 + 3.5 * std::exp(-0.1 * i) + offset * i / steps + normal(random);
  }
  return curve;
}

bool Moved(const std::vector<LossCurve>& other,
           const std::vector<LossCurve>& present) {
  const auto change = CompareLosses(other, present);
  EXPECT_TRUE(change.has_value());
  return change->Moved();
}

TEST(LossChange, ALossThatMovesAwayIsSeenInBothDirections) {
  for (const double offset : {1.0, -1.0}) {
    EXPECT_TRUE(Moved({Curve(1, offset)}, {Curve(1)})) << offset;
    EXPECT_TRUE(
        Moved({Curve(2, offset), Curve(3, offset)}, {Curve(4), Curve(5)}))
        << offset;
  }
}

TEST(LossChange, OtherSeedsAndOtherOrdersOfSumsAreNone) {
  int moved = 0;
  for (int seed = 0; seed < 500; ++seed) {
    moved += Moved({Curve(4 * seed), Curve(4 * seed + 1)},
                   {Curve(4 * seed + 2), Curve(4 * seed + 3)})
                 ? 1
                 : 0;
  }
  EXPECT_LT(moved, 10);
  LossCurve rounded = Curve(1);
  for (auto& [step, loss] : rounded) {
    loss *= 1.001;
  }
  EXPECT_FALSE(Moved({rounded}, {Curve(1)}));
}

// Rounds that differ by themselves are noise.
TEST(LossChange, TheRoundsOfThePresentOneAreNoise) {
  EXPECT_TRUE(Moved({Curve(1, 1.5)}, {Curve(2), Curve(3)}));
  EXPECT_FALSE(Moved({Curve(1, 1.5)}, {Curve(2), Curve(3, 2.5)}));
}

TEST(LossChange, ALossThatIsPrintedAStepLaterIsTheSame) {
  EXPECT_FALSE(Moved({Curve(1, 0.0, 2)}, {Curve(1, 0.0, 1)}));
  EXPECT_FALSE(Moved({Curve(1, 0.0, 0)}, {Curve(1, 0.0, 1)}));
}

TEST(LossChange, StepsThatBothHaveAreCompared) {
  const auto change = CompareLosses({Curve(1, 0.0, 11)}, {Curve(1, 0.0, 1)});
  ASSERT_TRUE(change.has_value());
  EXPECT_LE(change->steps, 10);
  EXPECT_FALSE(CompareLosses({}, {Curve(1)}));
  EXPECT_FALSE(CompareLosses({Curve(1)}, {}));
  EXPECT_FALSE(CompareLosses({Curve(1)}, {Curve(1, 0.0, 18)}));
  EXPECT_FALSE(CompareLosses({{{1, 2.0}}}, {{{1, 9.0}}}));
}

}  // namespace jobs::loss_change_test
