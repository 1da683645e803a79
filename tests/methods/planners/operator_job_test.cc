#include "methods/planners/operator_job.h"

#include <cmath>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trials/search_space.h"

namespace methods::operator_job_test {

using testing::ElementsAre;

TEST(MicroBatchOf, IsThatOfTheCandidateOrItsShareOfTheBatch) {
  EXPECT_EQ(MicroBatchOf({.dp = 2, .microbatches = 4}, 64), 8);
  EXPECT_EQ(MicroBatchOf({.dp = 2, .microbatches = 4}, 8), 1);
  EXPECT_EQ(MicroBatchOf({.dp = 2, .microbatches = 4}, 7), 1);
  EXPECT_EQ(
      MicroBatchOf({.dp = 2, .microbatches = 4, .micro_batch_size = 1}, 64), 1);
  EXPECT_EQ(
      MicroBatchOf({.dp = 2, .microbatches = 4, .micro_batch_size = 3}, 64), 3);
}

TEST(EstimateCandidates, AsksTheEstimatorOfTheirNumberOfGpus) {
  const trials::SearchSpace space(
      {{.dp = 1}, {.dp = 2}, {.tp = 2}, {.dp = 2, .tp = 2}});
  const auto estimates = [&](const std::vector<int>& sizes) {
    const Problem problem{.space = &space, .gpus = 4, .sizes = sizes};
    return EstimateCandidates(problem, [](const Problem& part) -> Estimator {
      return [gpus = part.gpus](const trials::ParallelConfig& config) {
        return OperatorEstimate{.iteration_ms = 1000.0 * gpus,
                                .memory_mb = config.tp == 2 ? NAN : 1.0};
      };
    });
  };
  const trials::Predictions sized = estimates({1, 2, 4});
  EXPECT_THAT(sized.step_time_s,
              ElementsAre(1.0, 2.0, testing::IsNan(), testing::IsNan()));
  EXPECT_THAT(
      sized.peak_memory_bytes,
      ElementsAre(1 << 20, 1 << 20, testing::IsNan(), testing::IsNan()));
  EXPECT_THAT(estimates({}).step_time_s,
              ElementsAre(4.0, 4.0, testing::IsNan(), testing::IsNan()));
}

}  // namespace methods::operator_job_test
