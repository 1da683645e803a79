#include "trials/objective.h"

#include <algorithm>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trials::objective_test {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Valuation, CostIsTimeTimesGpusTimesPrice) {
  // A quarter of an hour on 8 GPUs at 2 USD.
  EXPECT_DOUBLE_EQ(Valuation::Of({.price_per_hour = 2.0}).CostOf(900.0, 8),
                   4.0);
}

TEST(Weight, IsTheShareOfTheClustersGpus) {
  const ParallelConfig config{.dp = 2, .tp = 2, .pp = 3, .cp = 4};
  EXPECT_EQ(GpusOf(config), 48);
  EXPECT_DOUBLE_EQ(Weight{96}(config), 0.5);
  EXPECT_EQ(Weight{}(config), 1.0);
  EXPECT_EQ(Weight{}.OfGpus(6), 1.0);
  EXPECT_EQ(Weight{1}.OfGpus(6), 6.0);
  EXPECT_EQ(Weight{8}.OfGpus(6), 0.75);
}

TEST(Valuation, IsTheThroughputOrTheStepsOfOneDollar) {
  const ParallelConfig config{.dp = 4};
  EXPECT_EQ(Valuation{}.Factor(config), 1.0);
  const Valuation money{Objective::kMoney, 3.6};
  const double steps_per_s = 5.0;
  EXPECT_DOUBLE_EQ(steps_per_s * money.Factor(config),
                   1.0 / money.CostOf(1.0 / steps_per_s, 4));
  EXPECT_EQ(money.unit(), "steps/USD");
}

TEST(Valuation, OrdersConfigurationsLikeTheValuesOfMethods) {
  const Valuation money{Objective::kMoney, 1.7};
  const Weight price{32};
  const double per_value = money.FactorOfGpus(32);
  for (const int dp : {1, 3, 8, 32}) {
    const ParallelConfig config{.dp = dp};
    EXPECT_DOUBLE_EQ(money.Factor(config), per_value / price(config));
  }
}

TEST(ParetoFront, HasNoPointThatAnotherOneBeats) {
  std::mt19937 random(3);
  for (int repeat = 0; repeat < 200; ++repeat) {
    std::vector<TimeAndCost> points(1 + random() % 12);
    const auto few = [&] { return static_cast<double>(1 + random() % 5); };
    for (TimeAndCost& point : points) {  // few values: many ties
      point = {.step_time_s = few(), .cost = few()};
    }
    std::vector<std::size_t> expected;
    for (std::size_t i = 0; i < points.size(); ++i) {
      const TimeAndCost& a = points[i];
      bool best = true;
      for (std::size_t j = 0; j < points.size(); ++j) {
        const TimeAndCost& b = points[j];
        const bool as_good = b.step_time_s <= a.step_time_s && b.cost <= a.cost;
        const bool better = b.step_time_s < a.step_time_s || b.cost < a.cost;
        best = best && !(as_good && (better || j < i));
      }
      if (best) {
        expected.push_back(i);
      }
    }
    std::sort(expected.begin(), expected.end(), [&](auto a, auto b) {
      return points[a].step_time_s < points[b].step_time_s;
    });
    EXPECT_EQ(ParetoFront(points), expected);
  }
}

TEST(ParetoFront, OfNothingIsEmptyAndOfEqualPointsIsTheFirst) {
  EXPECT_THAT(ParetoFront({}), IsEmpty());
  const std::vector<TimeAndCost> equal = {{2.0, 1.0}, {2.0, 1.0}};
  EXPECT_THAT(ParetoFront(equal), ElementsAre(0));
}

}  // namespace trials::objective_test
