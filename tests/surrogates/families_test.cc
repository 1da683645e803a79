#include "surrogates/families.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace surrogates::families_test {

using ::testing::ElementsAre;
using trials::SearchSpace;

TEST(Families, AgreeInEveryStructuralKnobAndInNoOther) {
  const SearchSpace space({{.dp = 8},
                           {.dp = 8, .dp_bucket_mb = 64},
                           {.dp = 8, .zero_stage = 1},
                           {.dp = 8, .grad_checkpoint = trials::kRecomputeFull},
                           {.dp = 8, .ep = 2},
                           {.dp = 4, .cp = 2},
                           {.dp = 4, .tp = 2},
                           {.dp = 4, .tp = 2, .microbatches = 4},
                           {.dp = 4, .tp = 2, .sp = 2},
                           {.dp = 8, .zero_stage = 1, .zero_bucket_mb = 4}});
  const Families families = FamiliesOf(space);
  EXPECT_THAT(families.of_candidate, ElementsAre(0, 0, 1, 2, 3, 4, 5, 5, 6, 1));
  EXPECT_EQ(families.size(), 7);
}

TEST(Families, DifferByTheirStructuralKnobs) {
  const SearchSpace space(
      {{.dp = 8},
       {.dp = 8, .zero_stage = 1},
       {.dp = 4, .tp = 2, .zero_stage = 1, .grad_checkpoint = 1}});
  const Families families = FamiliesOf(space);
  EXPECT_EQ(families.Differences(0, 0), 0);
  EXPECT_EQ(families.Differences(0, 1), 1);
  EXPECT_EQ(families.Differences(2, 1), 3);
  EXPECT_EQ(families.Differences(0, 2), 4);
}

}  // namespace surrogates::families_test
