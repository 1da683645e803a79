#include "surrogates/cost/predicted_prior.h"

#include <limits>
#include <stdexcept>

#include <gtest/gtest.h>

#include "surrogates/cost/shared_scale.h"

namespace surrogates::predicted_prior_test {

constexpr double kCapacity = 10e9;

const trials::Predictions kPredictions{.source = "test",
                                       .step_time_s = {1.0, 2.0, 4.0},
                                       .peak_memory_bytes = {4e9, 8e9, 16e9}};

Eigen::VectorXd MeanAfter(const ParametricMean& prior,
                          const Observations& observations) {
  return prior.EvaluateAll(
      CentersAtScale(prior, MatchSharedScale(prior, observations)));
}

Observations One(int candidate, double value) {
  Observations one;
  one.candidate = {candidate};
  one.value.setConstant(1, value);
  one.noise_variance.setZero(1);
  return one;
}

TEST(PredictedPrior, StartsNearThePredictions) {
  const Eigen::VectorXd throughput =
      MeanAfter(PredictedThroughputPrior(kPredictions), {});
  const Eigen::VectorXd memory =
      MeanAfter(PredictedMemoryPrior(kPredictions, kCapacity, 1.1), {});
  for (int i = 0; i < 2; ++i) {
    const auto k = static_cast<std::size_t>(i);
    EXPECT_NEAR(throughput[i] * kPredictions.step_time_s[k], 1.0, 0.05);
    EXPECT_NEAR(memory[i], kPredictions.peak_memory_bytes[k] / kCapacity, 0.03);
  }
  EXPECT_DOUBLE_EQ(memory[2], 1.1);  // clipped
}

TEST(PredictedPrior, LearnsTheScaleOfPredictionsFromOneMeasurement) {
  const Eigen::VectorXd throughput =
      MeanAfter(PredictedThroughputPrior(kPredictions), One(0, 0.25));
  EXPECT_NEAR(throughput[1], 0.125, 0.03);
  const Eigen::VectorXd memory = MeanAfter(
      PredictedMemoryPrior(kPredictions, kCapacity, 1.1), One(0, 0.1));
  EXPECT_NEAR(memory[1], 0.2, 0.06);
}

TEST(PredictedPrior, AssumesThatTheSmallestCandidateFits) {
  trials::Predictions large = kPredictions;
  for (double& bytes : large.peak_memory_bytes) {
    bytes *= 8.0;
  }
  const Eigen::VectorXd memory =
      MeanAfter(PredictedMemoryPrior(large, kCapacity, 1.1), {});
  EXPECT_LT(memory[0], 0.9);
  EXPECT_DOUBLE_EQ(memory[1], 1.1);
}

TEST(PredictedPrior, RejectsPredictionsThatAreNotFiniteAndPositive) {
  for (const double value :
       {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()}) {
    trials::Predictions wrong = kPredictions;
    wrong.step_time_s[1] = value;
    EXPECT_THROW((void)PredictedThroughputPrior(wrong), std::invalid_argument);
    wrong = kPredictions;
    wrong.peak_memory_bytes[1] = value;
    EXPECT_THROW((void)PredictedMemoryPrior(wrong, kCapacity, 1.1),
                 std::invalid_argument);
  }
}

}  // namespace surrogates::predicted_prior_test
