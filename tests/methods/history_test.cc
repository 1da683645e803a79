#include "methods/history.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "tests/methods/trials.h"

namespace methods::history_test {

using trials::MakeTrial;
using trials::Measurement;
using trials::Outcome;

Measurement Completed(double step_s, double memory_bytes) {
  return tests::Completed({10.0 * step_s, step_s, step_s}, memory_bytes);
}

Measurement OutOfMemory() {
  return {.outcome = Outcome::kOutOfMemory, .step_times_s = {0.01}};
}

TEST(History, OutOfMemoryTellsNothingOfThroughput) {
  History history(3);
  history.Add(MakeTrial(0, {}, OutOfMemory()));
  EXPECT_EQ(history.ThroughputObservations().size(), 0);
  EXPECT_TRUE(std::isinf(history.best_value()));
  ASSERT_EQ(history.ScoreObservations().size(), 1);
  EXPECT_EQ(history.ScoreObservations().value[0], 0.0);
  EXPECT_EQ(history.ScoreObservations().noise_variance[0], 0.0);
}

TEST(History, OutOfMemoryObservesTheGivenMultipleOfTheCapacity) {
  History history(3);
  history.Add(MakeTrial(0, {}, OutOfMemory()));
  history.Add(MakeTrial(1, {}, Completed(0.5, 12e9)));
  const auto memory = history.MemoryObservations(24e9, 1.1, 1e-4);
  ASSERT_EQ(memory.size(), 2);
  EXPECT_EQ(memory.value[0], 1.1);
  EXPECT_EQ(memory.value[1], 0.5);
  EXPECT_EQ(memory.noise_variance, Eigen::Vector2d(1e-4, 1e-4));
}

TEST(History, FollowsAnotherWithWhatRuns) {
  History other(3);
  other.Add(MakeTrial(0, {}, OutOfMemory()));
  History history(3);
  history.Follow(other);
  EXPECT_EQ(history.size(), 1);
  other.Start(1);
  other.Start(-1, "a plan");
  history.Follow(other);
  EXPECT_EQ(history.tried(), (std::vector<char>{1, 1, 0}));
  EXPECT_EQ(history.running(), std::vector<int>{1});
  EXPECT_TRUE(history.HasTried(-1, "a plan"));
  EXPECT_EQ(history.turn(), 2);
  EXPECT_EQ(history.turn_with_plans(), 3);
  other.Add(MakeTrial(1, {}, Completed(0.5, 1e9)));
  history.Follow(other);
  EXPECT_TRUE(history.running().empty());
  EXPECT_EQ(history.best_value(), other.best_value());
  EXPECT_EQ(history.turn(), 2);
}

TEST(History, UnknownMemoryIsLeftOut) {
  History history(3);
  Measurement measurement = Completed(0.5, 1.0);
  measurement.peak_memory_bytes.reset();
  history.Add(MakeTrial(1, {}, measurement));
  history.Add(MakeTrial(0, {}, OutOfMemory()));
  history.Add(MakeTrial(2, {}, Completed(0.5, 1e9)));
  EXPECT_EQ(history.MemoryObservations(24e9, 1.1, 1e-4).size(), 2);
  EXPECT_EQ(history.MemoryObservations(24e9, std::nullopt, 1e-4).size(), 1);
  EXPECT_EQ(history.MemoryBounds(),
            (std::vector<surrogates::Bound>{{1, false}, {0, true}}));
}

TEST(History, TheVarianceOfAMeanIsThatOfAStepOverTheSteps) {
  trials::Trial trial{
      .throughput = {.steps_per_s = 1.0, .variance = 8.0, .steps_used = 4}};
  EXPECT_EQ(History(1).VarianceOfMean(trial), 2.0);
  EXPECT_EQ(History(1, {.variance_of_mean = true}).VarianceOfMean(trial), 8.0);
  trial.throughput.steps_used = 0;
  EXPECT_EQ(History(1).VarianceOfMean(trial), 8.0);
}

TEST(History, MarksWhatWasTriedUntilNothingIsLeft) {
  History history(3);
  history.Add(MakeTrial(2, {}, OutOfMemory()));
  history.Add(MakeTrial(0, {}, Completed(0.5, 1e9)));
  EXPECT_EQ(history.tried(), (std::vector<char>{1, 0, 1}));
  EXPECT_FALSE(history.exhausted());
  history.Add(MakeTrial(1, {}, OutOfMemory()));
  EXPECT_TRUE(history.exhausted());
}

TEST(History, FailuresInARowEndWithAThroughput) {
  History history(5);
  history.Add(MakeTrial(0, {}, OutOfMemory()));
  history.Add(MakeTrial(1, {}, Measurement{}));
  EXPECT_EQ(history.failures_in_a_row(), 2);
  history.Add(MakeTrial(2, {}, Completed(0.5, 1e9)));
  EXPECT_EQ(history.failures_in_a_row(), 0);
  history.Add(MakeTrial(3, {}, OutOfMemory()));
  EXPECT_EQ(history.failures_in_a_row(), 1);
}

TEST(History, BestCountsEarlyTerminatedTrials) {
  History history(3);
  Measurement measurement = Completed(0.5, 1e9);
  measurement.outcome = Outcome::kTerminatedEarly;
  history.Add(MakeTrial(2, {}, measurement));
  EXPECT_DOUBLE_EQ(history.best_value(), 2.0);
}

// 1%, 2% and 30% of scatter: the median counts, at the best throughput.
TEST(History, StepNoiseIsTheMedianRelativeOneAtTheBest) {
  History history(4);
  EXPECT_EQ(history.StepNoise(), 0.0);
  const auto add = [&](int candidate, double steps_per_s, double scatter) {
    history.Add(
        MakeTrial(candidate, {},
                  tests::Completed({9.0, 1.0 / (steps_per_s * (1.0 + scatter)),
                                    1.0 / (steps_per_s * (1.0 - scatter))})));
  };
  add(0, 1.0, 0.01);
  add(1, 4.0, 0.02);
  add(2, 2.0, 0.3);
  history.Add(MakeTrial(3, {}, OutOfMemory()));
  EXPECT_NEAR(history.StepNoise(), 4.0 * 0.02, 1e-12);
}

// Half of the GPUs cost half: the same throughput has twice the value, and its
// variance four times that. Plans use all GPUs.
TEST(History, ValuesAreThroughputsPerWeight) {
  History history(2, {}, {.machine_gpus = 8});
  trials::Trial trial =
      MakeTrial(0, trials::ParallelConfig{.dp = 4}, Completed(0.5, 1e9));
  trial.throughput.variance = 3.0;
  EXPECT_EQ(history.ValueOf(trial).value, 4.0);
  EXPECT_EQ(history.ValueOf(trial).variance, 12.0);
  history.Add(trial);
  EXPECT_EQ(history.best_value(), 4.0);
  EXPECT_EQ(history.ThroughputObservations().value[0], 4.0);
  EXPECT_EQ(history.ScoreObservations().value[0], 4.0);
  trial.plan = "layers=8 dp=4 tp=1";
  EXPECT_EQ(history.ValueOf(trial).value, 2.0);
}

// Surrogates encode candidates of the space, and a plan is none.
TEST(History, APlanCountsForTheBestAndIsNoObservation) {
  History history(2);
  trials::Trial plan = MakeTrial(-1, {}, Completed(0.25, 1e9));
  plan.plan = "layers=8 dp=4 tp=1";
  history.Add(plan);
  EXPECT_EQ(history.best_value(), 4.0);
  EXPECT_EQ(history.size(), 0);
  EXPECT_FALSE(history.has_throughput());
  EXPECT_EQ(history.ThroughputObservations().size(), 0);
  EXPECT_EQ(history.MemoryObservations(24e9, 1.1, 1e-4).size(), 0);
  history.Add(MakeTrial(0, {}, Completed(0.5, 1e9)));
  history.Add(MakeTrial(1, {}, OutOfMemory()));
  EXPECT_TRUE(history.exhausted());
  EXPECT_EQ(history.best_value(), 4.0);
  EXPECT_TRUE(history.HasTried(-1, plan.plan));
  EXPECT_FALSE(history.HasTried(-1, "layers=8 dp=2 tp=1"));
}

}  // namespace methods::history_test
