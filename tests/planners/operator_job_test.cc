#include "planners/operator_job.h"

#include <gtest/gtest.h>

namespace planners::operator_job_test {

TEST(MicroBatchOf, IsThatOfTheCandidateOrItsShareOfTheBatch) {
  EXPECT_EQ(MicroBatchOf({.dp = 2, .microbatches = 4}, 64), 8);
  EXPECT_EQ(MicroBatchOf({.dp = 2, .microbatches = 4}, 8), 1);
  EXPECT_EQ(MicroBatchOf({.dp = 2, .microbatches = 4}, 7), 1);
  EXPECT_EQ(
      MicroBatchOf({.dp = 2, .microbatches = 4, .micro_batch_size = 1}, 64), 1);
  EXPECT_EQ(
      MicroBatchOf({.dp = 2, .microbatches = 4, .micro_batch_size = 3}, 64), 3);
}

}  // namespace planners::operator_job_test
