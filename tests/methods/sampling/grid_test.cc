#include "methods/sampling/grid.h"

#include <algorithm>
#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/methods/trials.h"

namespace methods::grid_test {

// What it tries where the listed candidates run out of memory.
std::vector<int> Search(const trials::SearchSpace& space,
                        const std::vector<int>& too_large) {
  Problem problem;
  problem.space = &space;
  const std::unique_ptr<Method> method = MakeGrid(problem, {}, 1);
  return tests::TryAll(*method, space, [&](int candidate) {
    return std::ranges::count(too_large, candidate) > 0 ? tests::OutOfMemory()
                                                        : tests::Completed(1.0);
  });
}

// Full recomputation saves more than that of attention, and this more than
// none.
TEST(Grid, GoesFromTheMostToTheLeastSparingAndLeavesOutWhatNeedsMore) {
  const trials::SearchSpace space(
      {{.dp = 8, .grad_checkpoint = trials::kRecomputeNothing},
       {.dp = 8, .grad_checkpoint = trials::kRecomputeSelective},
       {.dp = 8, .grad_checkpoint = trials::kRecomputeFull},
       {.dp = 8, .zero_stage = 1, .grad_checkpoint = trials::kRecomputeNothing},
       {.dp = 4, .tp = 2}});
  EXPECT_THAT(Search(space, {}), testing::UnorderedElementsAre(0, 1, 2, 3, 4));
  const auto of_dp8 = [&](const std::vector<int>& too_large) {
    std::vector<int> tried = Search(space, too_large);
    std::erase(tried, 4);
    return tried;
  };
  EXPECT_THAT(of_dp8({}), testing::ElementsAre(2, 1, 3, 0));
  EXPECT_THAT(of_dp8({1}), testing::ElementsAre(2, 1, 3));
  EXPECT_THAT(of_dp8({3}), testing::ElementsAre(2, 1, 3));
  EXPECT_THAT(of_dp8({2}), testing::ElementsAre(2, 3));
}

}  // namespace methods::grid_test
