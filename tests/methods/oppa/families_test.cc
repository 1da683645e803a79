#include "methods/oppa/families.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace methods::families_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using trials::Outcome;

const trials::SearchSpace& Space() {
  static const trials::SearchSpace space(
      {{.dp = 8},
       {.dp = 8, .dp_bucket_mb = 64},
       {.dp = 8, .grad_checkpoint = trials::kRecomputeFull},
       {.dp = 8, .zero_stage = 1},
       {.dp = 8, .zero_stage = 1, .zero_bucket_mb = 64}});
  return space;
}

std::vector<char> Used(const std::vector<int>& ran,
                       const std::vector<int>& ran_out_of_memory) {
  History history(Space().size());
  for (const int candidate : ran) {
    history.Add(trials::MakeTrial(
        candidate, Space()[candidate],
        {.outcome = Outcome::kCompleted, .step_times_s = {1.0, 1.0, 1.0}}));
  }
  for (const int candidate : ran_out_of_memory) {
    history.Add(trials::MakeTrial(candidate, Space()[candidate],
                                  {.outcome = Outcome::kOutOfMemory}));
  }
  return UsedFamilies(trials::FamiliesOf(Space()), history);
}

TEST(UsedFamilies, AreThoseWithAThroughput) {
  EXPECT_THAT(Used({1}, {}), ElementsAre(1, 1, 0, 0, 0));
  EXPECT_THAT(Used({0, 3}, {}), ElementsAre(1, 1, 0, 1, 1));
}

TEST(UsedFamilies, OfWhichEveryTrialRanOutOfMemoryKeepUntriedMembers) {
  EXPECT_THAT(Used({0}, {3}), ElementsAre(1, 1, 0, 1, 0));
}

TEST(UsedFamilies, AreEmptyOnceNoCandidateIsLeft) {
  EXPECT_THAT(Used({1, 2, 4}, {}), IsEmpty());
}

}  // namespace methods::families_test
