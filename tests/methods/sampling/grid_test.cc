#include "methods/sampling/grid.h"

#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace methods::grid_test {

using trials::Outcome;

// What it tries where the listed candidates run out of memory.
std::vector<int> Search(const trials::SearchSpace& space,
                        const std::vector<int>& too_large) {
  Problem problem;
  problem.space = &space;
  const std::unique_ptr<Method> method = MakeGrid(problem, {}, 1);
  std::vector<int> tried;
  while (const auto suggestion = method->Suggest()) {
    tried.push_back(suggestion->candidate);
    trials::Measurement measurement;
    measurement.outcome = Outcome::kCompleted;
    measurement.step_times_s.assign(4, 1.0);
    for (const int candidate : too_large) {
      if (candidate == tried.back()) {
        measurement = {.outcome = Outcome::kOutOfMemory};
      }
    }
    method->Observe(MakeTrial(tried.back(), space[tried.back()], measurement));
  }
  return tried;
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
