#include "trainer/schedule.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace trainer::schedule_test {

using Passes = std::vector<std::pair<int, int>>;  // microbatch, chunk

TEST(PipelineSchedule, AlternatesAfterAWarmUpThatFillsTheStagesBehind) {
  for (const int stages : {1, 2, 3, 4}) {
    for (const int chunks : {1, 2, 3}) {
      for (const int groups : {1, 2, 3}) {
        // Each group of microbatches goes through chunk after chunk, and back
        // from the last one.
        Passes forward;
        Passes backward;
        for (int group = 0; group < groups; ++group) {
          for (int chunk = 0; chunk < chunks; ++chunk) {
            for (int i = 0; i < stages; ++i) {
              forward.emplace_back(group * stages + i, chunk);
              backward.emplace_back(group * stages + i, chunks - 1 - chunk);
            }
          }
        }
        for (int stage = 0; stage < stages; ++stage) {
          const int behind = stages - 1 - stage;
          const int ahead =
              chunks == 1 ? behind : 2 * behind + (chunks - 1) * stages;
          Passes forwards;
          Passes backwards;
          for (const Action& action :
               Schedule(stages, stage, groups * stages, chunks)) {
            (action.forward ? forwards : backwards)
                .emplace_back(action.microbatch, action.chunk);
            // What is under way: the warm-up, and the one that alternates.
            const int under_way = static_cast<int>(forwards.size()) -
                                  static_cast<int>(backwards.size());
            EXPECT_LE(under_way, ahead + 1);
            if (!action.forward && forwards.size() < forward.size()) {
              EXPECT_EQ(under_way, ahead);
            }
          }
          EXPECT_EQ(forwards, forward);
          EXPECT_EQ(backwards, backward);
        }
      }
    }
  }
}

}  // namespace trainer::schedule_test
