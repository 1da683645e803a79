#include "methods/guided/cost_model.h"

#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/methods/trials.h"

namespace methods::cost_model_test {

constexpr double kCapacity = 16e9;

// Predictions that are right: the first candidate is the fastest, but for the
// last one, which does not fit.
class CostModelTest : public testing::Test {
 protected:
  CostModelTest() {
    problem_.space = &space_;
    problem_.machine = trials::GpuType{.memory_bytes = kCapacity};
    problem_.predict = tests::PredictionsBy(space_.size(), [this](int i) {
      return std::pair(StepTime(i), Memory(i));
    });
    options_.random_trials = 2;
    options_.surrogates.throughput_prior =
        surrogates::CostModelForm::kPredicted;
    options_.surrogates.memory_prior = surrogates::CostModelForm::kPredicted;
  }

  [[nodiscard]] bool IsLast(int candidate) const {
    return candidate == space_.size() - 1;
  }
  [[nodiscard]] double StepTime(int candidate) const {
    return IsLast(candidate) ? 0.1 : 1.0 + candidate;
  }
  [[nodiscard]] double Memory(int candidate) const {
    return IsLast(candidate) ? 4 * kCapacity : 0.5 * kCapacity;
  }

  // What the method tries.
  [[nodiscard]] std::vector<int> Search(std::uint64_t seed) const {
    const std::unique_ptr<Method> method =
        MakeCostModel(problem_, options_, seed);
    return tests::TryAll(*method, space_, [this](int i) {
      return IsLast(i) ? tests::OutOfMemory()
                       : tests::Completed(StepTime(i), Memory(i));
    });
  }

  trials::SearchSpace space_{std::vector<trials::ParallelConfig>{
      {.dp = 1}, {.dp = 2}, {.dp = 3}, {.dp = 4}, {.dp = 5}, {.dp = 6}}};
  Problem problem_;
  CostModelOptions options_;
};

// Two at random and the fastest that fits; nothing if that one was drawn.
TEST_F(CostModelTest, EndsWithTheFastestCandidateThatFits) {
  int shots = 0;
  int known = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const std::vector<int> tried = Search(seed);
    ASSERT_GE(tried.size(), 2U);
    if (tried[0] == 0 || tried[1] == 0) {
      EXPECT_EQ(tried.size(), 2U);
      ++known;
    } else {
      ASSERT_EQ(tried.size(), 3U);
      EXPECT_EQ(tried[2], 0);
      ++shots;
    }
  }
  EXPECT_GT(shots, 0);
  EXPECT_GT(known, 0);
}

// It draws until a trial has a throughput.
TEST_F(CostModelTest, WhereNothingRunsEverythingIsTriedOnce) {
  const std::unique_ptr<Method> method = MakeCostModel(problem_, options_, 1);
  for (int i = 0; i < space_.size(); ++i) {
    const auto suggestion = method->Suggest();
    ASSERT_TRUE(suggestion) << i;
    EXPECT_EQ(suggestion->chosen_by, trials::ChosenBy::kRandom);
    method->Observe(MakeTrial(suggestion->candidate,
                              space_[suggestion->candidate],
                              {.outcome = trials::Outcome::kOutOfMemory}));
  }
  EXPECT_FALSE(method->Suggest());
}

// Trials that ran in spite of it are no reason to try another one.
TEST_F(CostModelTest, EndsWhereNothingIsPredictedToFit) {
  problem_.predict = tests::PredictionsBy(
      space_.size(), [](int) { return std::pair(1.0, 4 * kCapacity); });
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    const std::unique_ptr<Method> method =
        MakeCostModel(problem_, options_, seed);
    for (int i = 0; i < 2; ++i) {
      const int candidate = method->Suggest()->candidate;
      method->Observe(MakeTrial(candidate, space_[candidate],
                                {.outcome = trials::Outcome::kCompleted,
                                 .step_times_s = {1.0, 1.0, 1.0, 1.0},
                                 .peak_memory_bytes = 4 * kCapacity}));
    }
    EXPECT_FALSE(method->Suggest()) << seed;
  }
}

}  // namespace methods::cost_model_test
