#include "trials/schedule.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trials::schedule_test {

using ::testing::ElementsAre;

// Every shape of up to 8 stages, 4 chunks and 16 microbatches that may run.
std::vector<PipelineShape> Shapes() {
  std::vector<PipelineShape> shapes;
  for (const int stages : {1, 2, 3, 4, 5, 8}) {
    for (int microbatches = 1; microbatches <= 16; ++microbatches) {
      for (const int chunks : {1, 2, 3, 4}) {
        if (chunks == 1 || microbatches % stages == 0) {
          shapes.push_back({stages, microbatches, chunks});
        }
      }
    }
  }
  return shapes;
}

// Gradients are summed in the same order on every replica only if a chunk's
// microbatches come in order.
TEST(Schedule, AChunkTakesEveryMicrobatchOnceEachWayInOrder) {
  for (const PipelineShape& shape : Shapes()) {
    for (int s = 0; s < shape.stages; ++s) {
      std::vector<int> forward(shape.chunks, 0);
      std::vector<int> backward = forward;
      for (const Action& action : StageActions(shape, s)) {
        ASSERT_LT(action.chunk, shape.chunks);
        int& next = (action.forward ? forward : backward)[action.chunk];
        ASSERT_EQ(action.microbatch, next);
        ++next;
        ASSERT_LE(backward[action.chunk], forward[action.chunk]);
      }
      ASSERT_EQ(forward, std::vector(shape.chunks, shape.microbatches));
      ASSERT_EQ(backward, forward);
    }
  }
}

TEST(Schedule, OneForwardOneBackwardHoldsAtMostTheStagesBehindIt) {
  for (const int stages : {1, 2, 3, 4, 8, 16}) {
    for (int microbatches = 1; microbatches <= 20; ++microbatches) {
      for (int s = 0; s < stages; ++s) {
        int held = 0;
        int most = 0;
        for (const Action& action :
             StageActions({stages, microbatches, 1}, s)) {
          held += action.forward ? 1 : -1;
          most = std::max(most, held);
        }
        EXPECT_EQ(most, std::min(microbatches, stages - s));
        EXPECT_EQ(held, 0);
      }
    }
  }
}

TEST(Schedule, TheFirstOfTwoInterleavedStagesIsMegatrons) {
  const auto f = [](int m, int c) { return Action{true, m, c}; };
  const auto b = [](int m, int c) { return Action{false, m, c}; };
  EXPECT_THAT(StageActions({2, 2, 2}, 0),
              ElementsAre(f(0, 0), f(1, 0), f(0, 1), f(1, 1), b(0, 1), b(1, 1),
                          b(0, 0), b(1, 0)));
  EXPECT_THAT(StageActions({2, 2, 2}, 1),
              ElementsAre(f(0, 0), f(1, 0), f(0, 1), b(0, 1), f(1, 1), b(1, 1),
                          b(0, 0), b(1, 0)));
}

TEST(Schedule, InterleavingNeedsAMultipleOfTheStages) {
  EXPECT_THROW((void)StageActions({4, 6, 2}, 0), std::invalid_argument);
  EXPECT_NO_THROW((void)StageActions({4, 6, 1}, 0));
  for (const PipelineShape& shape :
       {PipelineShape{0, 1, 1}, PipelineShape{1, 0, 1},
        PipelineShape{1, 1, 0}}) {
    EXPECT_THROW(CheckShape(shape), std::invalid_argument);
  }
  EXPECT_NO_THROW(CheckShape({1, 1, 1}));
}

TEST(Schedule, ZeroBubbleComputesEachGradientOnceAndThatOfWeightsLast) {
  for (PipelineShape shape : Shapes()) {
    if (shape.chunks > 1) {
      shape.zero_bubble = true;
      EXPECT_THROW(CheckShape(shape), std::invalid_argument);
      continue;
    }
    shape.zero_bubble = true;
    for (int s = 0; s < shape.stages; ++s) {
      const std::vector<Action> actions = StageActions(shape, s);
      std::vector<int> next(3, 0);  // forward, inputs, weights
      ASSERT_EQ(actions.size(), 3U * shape.microbatches);
      for (const Action& action : actions) {
        const std::size_t kind = action.forward ? 0 : action.weights ? 2 : 1;
        ASSERT_EQ(action.microbatch, next[kind]++);
        ASSERT_TRUE(kind == 0 || next[kind] <= next[kind - 1]);
      }
    }
  }
}

}  // namespace trials::schedule_test
