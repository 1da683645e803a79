// Every choice of OPPA, next to one that is put together from its parts.

#include "methods/oppa/oppa.h"

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "methods/surrogate_pair.h"
#include "tests/fakes/grid.h"
#include "tests/methods/trials.h"

namespace methods::oppa_test {

constexpr double kCapacity = 16e9;
constexpr std::uint64_t kSeed = 3;

// Eight families of three buckets each.
trials::SearchSpace Space() {
  return trials::SearchSpace(fakes::Grid({{"tp", {1, 2, 4, 8}},
                                          {"microbatches", {1, 4}},
                                          {"dp_bucket_mb", {1, 24, 96}}},
                                         {}, 8));
}

class OppaTest : public testing::Test {
 protected:
  OppaTest() {
    problem_.space = &space_;
    problem_.machine = trials::GpuType{
        .gpus = 8, .gpus_per_node = 8, .memory_bytes = kCapacity};
    problem_.q_max = 10;
  }

  [[nodiscard]] trials::Trial Ran(int candidate) const {
    const trials::ParallelConfig& config = space_[candidate];
    return MakeTrial(candidate, config,
                     tests::Completed(1.0 + 0.2 * std::log2(config.tp) +
                                          0.1 * config.microbatches +
                                          0.001 * config.dp_bucket_mb,
                                      0.5 * kCapacity / config.tp));
  }
  [[nodiscard]] trials::Trial Failed(int candidate) const {
    return MakeTrial(candidate, space_[candidate], tests::OutOfMemory());
  }

  // The surrogates of the method, which learn from the same histories.
  [[nodiscard]] std::unique_ptr<SurrogatePair> PairOf(
      const OppaOptions& options) const {
    SurrogatePair::Options pair = options.surrogates;
    pair.fit.seed = kSeed;
    return std::make_unique<SurrogatePair>(problem_, pair);
  }

  trials::SearchSpace space_ = Space();
  Problem problem_;
};

// The other function chooses every n-th trial.
TEST_F(OppaTest, ChoosesByTheFunctionOfItsTurn) {
  int others = 0;
  for (const int alternate_every : {0, 1, 2}) {
    const double beta = alternate_every == 0 ? 0.0 : 3.0;
    const OppaOptions options{.beta = beta, .alternate_every = alternate_every};
    const auto method = MakeOppa(problem_, options, kSeed);
    const auto pair = PairOf(options);
    History history(space_.size());
    for (int trial = 0; trial < 7; ++trial) {
      const int candidate = method->Suggest()->candidate;
      if (trial > 0) {  // the first one is random
        (void)pair->Fit(history);
        const bool other = alternate_every > 0 && trial % alternate_every == 0;
        EXPECT_EQ(candidate,
                  pair->ArgMax({.acquisition =
                                    other ? Acquisition::kConstrainedImprovement
                                          : Acquisition::kConstrainedUcb,
                                .beta = beta,
                                .best_value = history.best_value()},
                               history.tried())
                      .candidate)
            << alternate_every << " " << trial;
        others += other ? 1 : 0;
      }
      method->Observe(Ran(candidate));
      history.Add(Ran(candidate));
    }
  }
  EXPECT_GT(others, 5);
}

// Predictions choose the first trial as a user would, who risks a failure for a
// faster configuration, and the second one by the mean.
TEST_F(OppaTest, OnlyTheFirstTrialIsThePredictedFirstToTry) {
  problem_.predict = tests::PredictionsBy(
      space_.size(),
      [](int i) {
        return i % 2 == 0 ? std::pair(1.0, 1.15 * kCapacity)
                          : std::pair(1.3, 0.1 * kCapacity);
      },
      0.5);
  OppaOptions options{.random_trials = 0};
  options.surrogates.throughput_prior = surrogates::CostModelForm::kPredicted;
  options.surrogates.memory_prior = surrogates::CostModelForm::kPredicted;
  const auto method = MakeOppa(problem_, options, kSeed);
  const auto pair = PairOf(options);
  History history(space_.size());
  (void)pair->Fit(history);
  const int first = pair->FirstToTry(history.tried()).candidate;
  ASSERT_NE(pair->ArgMax({.beta = 0.0}, history.tried()).candidate, first);
  EXPECT_EQ(method->Suggest()->candidate, first);
  method->Observe(Failed(first));
  history.Add(Failed(first));
  (void)pair->Fit(history);
  const int second = pair->ArgMax({.beta = 0.0}, history.tried()).candidate;
  ASSERT_NE(pair->FirstToTry(history.tried()).candidate, second);
  EXPECT_EQ(method->Suggest()->candidate, second);
}

// Before the first result, exploration tells running trials apart. After a
// failure, the best mean that is expected to fit comes first.
TEST_F(OppaTest, ExploresWithTrialsInFlightUntilOneFails) {
  const OppaOptions options{.beta = 3.0, .failures_before_random = 0};
  for (const bool failed : {false, true}) {
    const auto method = MakeOppa(problem_, options, kSeed);
    const auto pair = PairOf(options);
    History history(space_.size());
    for (const int candidate : {0, 7}) {
      method->Start({.candidate = candidate});
      history.Start(candidate);
    }
    if (failed) {
      method->Observe(Failed(0));
      history.Add(Failed(0));
    }
    (void)pair->Fit(history);
    const std::vector<char> excluded = pair->Excluded(history);
    const int boldest = pair->ArgMax({.beta = 3.0}, excluded).candidate;
    const int best = pair->ArgMax({.beta = 0.0}, excluded).candidate;
    ASSERT_NE(boldest, best);
    EXPECT_EQ(method->Suggest()->candidate, failed ? best : boldest);
  }
}

// One trial that ran, and then failures.
TEST_F(OppaTest, DrawsAtRandomAfterEveryNthFailureInARow) {
  for (const int n : {0, 1, 2, 3}) {
    const auto method =
        MakeOppa(problem_, {.failures_before_random = n}, kSeed);
    method->Observe(Ran(method->Suggest()->candidate));
    for (int failures = 0; failures < 7; ++failures) {
      const auto suggestion = method->Suggest();
      const bool random = n > 0 && failures > 0 && failures % n == 0;
      EXPECT_EQ(suggestion->chosen_by == trials::ChosenBy::kRandom, random)
          << n << " " << failures;
      method->Observe(Failed(suggestion->candidate));
    }
  }
}

// A prior knows what may fit before any trial has run; without one, nothing
// does. On Ultra-Scale, 9 of 20 random trials run out of memory.
TEST_F(OppaTest, PriorsChooseAfterAFirstTrialThatFailed) {
  const auto second_is_random = [&](const OppaOptions& options) {
    const auto method = MakeOppa(problem_, options, kSeed);
    method->Observe(Failed(method->Suggest()->candidate));
    return method->Suggest()->chosen_by == trials::ChosenBy::kRandom;
  };
  EXPECT_FALSE(second_is_random({}));
  EXPECT_TRUE(second_is_random({.prior_start = false}));
  EXPECT_TRUE(second_is_random(
      {.surrogates = {.throughput_prior = surrogates::CostModelForm::kNone,
                      .memory_prior = surrogates::CostModelForm::kNone}}));
}

TEST_F(OppaTest, OnlyCalibratedSurrogatesEstimateWhatRemains) {
  for (const auto& [surrogates, estimates] :
       {std::pair(SurrogatePair::Options(), true),
        std::pair(VanillaSurrogates(), false),
        std::pair(PrintedSurrogates(), false)}) {
    const auto method = MakeOppa(problem_, {.surrogates = surrogates}, kSeed);
    EXPECT_EQ(method->EstimatesRemaining(), estimates);
    (void)method->Suggest();
    method->Observe(Ran(0));
    EXPECT_EQ(method->Suggest()->remaining.has_value(), estimates);
  }
}

TEST(PredictionsOf, AreThoseOfAnyPredictedPrior) {
  using surrogates::CostModelForm;
  const auto uses = [](CostModelForm throughput, CostModelForm memory) {
    return PredictionsOf(
               OppaOptions{.surrogates = {.throughput_prior = throughput,
                                          .memory_prior = memory,
                                          .predictions = "mine"}})
               .value_or("none") == "mine";
  };
  EXPECT_FALSE(uses(CostModelForm::kPhysical, CostModelForm::kNone));
  EXPECT_TRUE(uses(CostModelForm::kPredicted, CostModelForm::kNone));
  EXPECT_TRUE(uses(CostModelForm::kPhysical, CostModelForm::kPredicted));
}

}  // namespace methods::oppa_test
