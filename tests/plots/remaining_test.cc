#include "plots/remaining.h"

#include <gtest/gtest.h>

namespace plots::remaining_test {

TEST(Remaining, ReadsTheEstimatesOfEveryTrial) {
  const auto estimates =
      RemainingByTrial({{4, "throughput", "expected_gain", 9.0},
                        {4, "remaining", "expected_gain", 0.25},
                        {4, "remaining", "candidate", 17.0},
                        {4, "remaining", "p_within_5", 0.5},
                        {5, "remaining", "expected_gain", 0.125}});
  ASSERT_EQ(estimates.size(), 2U);
  EXPECT_EQ(estimates.at(4),
            (trials::Remaining{
                .expected_gain = 0.25, .candidate = 17, .p_within_5 = 0.5}));
  EXPECT_EQ(estimates.at(5).expected_gain, 0.125);
}

TEST(Remaining, IsOneLineOfText) {
  EXPECT_EQ(RemainingText({.expected_gain = 0.00834, .p_within_5 = 0.931}),
            "expected gain 0.83%, within 5% of the optimum: 93%");
}

}  // namespace plots::remaining_test
