#include "trials/predictions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trials {
namespace {

TEST(Order, IsByTimeOfWhatFitsThenByMemoryOfTheRest) {
  const Predictions predictions{
      .step_time_s = {1.0, 4.0, 2.0, 0.5, 2.0},
      .peak_memory_bytes = {12.0, 5.0, 8.0, 11.0, 10.0}};
  EXPECT_THAT(Order(predictions, 10.0), testing::ElementsAre(2, 4, 1, 3, 0));
}

}  // namespace
}  // namespace trials
