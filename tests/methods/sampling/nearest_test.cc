#include "methods/sampling/nearest.h"

#include <gtest/gtest.h>

namespace methods::nearest_test {

TEST(Nearest, IsTheFirstUntriedCandidateAtTheLeastDistance) {
  const trials::SearchSpace space(
      {{.dp = 16}, {.dp = 2}, {.dp = 8}, {.dp = 4}});
  const trials::ParallelConfig config{.dp = 4};
  EXPECT_EQ(NearestUntried(space, {0, 0, 0, 0}, config), 3);
  EXPECT_EQ(NearestUntried(space, {0, 0, 0, 1}, config), 1);  // as far as 2
  EXPECT_EQ(NearestUntried(space, {0, 1, 0, 1}, config), 2);
  EXPECT_EQ(NearestUntried(space, {0, 1, 1, 1}, config), 0);
}

TEST(Nearest, IsNoneWhenAllWereTried) {
  const trials::SearchSpace space({{.dp = 1}, {.dp = 2}});
  EXPECT_EQ(NearestUntried(space, {1, 1}, {.dp = 2}), -1);
}

}  // namespace methods::nearest_test
