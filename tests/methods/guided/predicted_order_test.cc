#include "methods/guided/predicted_order.h"

#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/methods/trials.h"

namespace methods::predicted_order_test {

constexpr double kCapacity = 16e9;

// Candidates 0 to 4: slow, the fastest that fits, two that cannot fit, fast.
TEST(PredictedOrder, TriesEachCandidateOnceAndWhatCannotFitLast) {
  const trials::SearchSpace space(
      {{.dp = 1}, {.dp = 2}, {.dp = 4}, {.dp = 8}, {.dp = 16}});
  Problem problem{.space = &space,
                  .machine = trials::GpuType{.memory_bytes = kCapacity}};
  problem.predict = [](const std::string&) {
    return trials::Predictions{
        .step_time_s = {4.0, 1.0, 0.1, 0.1, 2.0},
        .peak_memory_bytes = {1e9, 1e9, 100 * kCapacity, 50 * kCapacity, 1e9}};
  };
  const std::unique_ptr<Method> method = MakePredictedOrder(problem, {}, 1);
  EXPECT_EQ(method->Suggest()->candidate, 1);
  const auto order = tests::TryAll(*method, space, [](int) {
    return trials::Measurement{};  // it learns nothing
  });
  EXPECT_THAT(order, testing::ElementsAre(1, 4, 0, 3, 2));
}

}  // namespace methods::predicted_order_test
