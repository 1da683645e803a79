#include "methods/oppa/families.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace methods {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const trials::SearchSpace& Space() {
  static const trials::SearchSpace space(
      {{.dp = 8},
       {.dp = 8, .dp_bucket_mb = 64},
       {.dp = 8, .zero_stage = 1},
       {.dp = 8, .zero_stage = 1, .zero_bucket_mb = 64},
       {.dp = 4, .tp = 2, .grad_checkpoint = true}});
  return space;
}

TEST(TriedFamilies, AreThoseOfEveryCandidateThatWasTried) {
  EXPECT_THAT(TriedFamilies(Space(), {0, 1, 0, 0, 0}),
              ElementsAre(1, 1, 0, 0, 0));
  EXPECT_THAT(TriedFamilies(Space(), {1, 0, 0, 1, 0}),
              ElementsAre(1, 1, 1, 1, 0));
}

TEST(TriedFamilies, AreEmptyOnceEveryFamilyWasTried) {
  EXPECT_THAT(TriedFamilies(Space(), {1, 0, 1, 0, 1}), IsEmpty());
}

}  // namespace
}  // namespace methods
