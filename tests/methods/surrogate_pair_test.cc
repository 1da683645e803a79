#include "methods/surrogate_pair.h"

#include <cmath>

#include <gtest/gtest.h>

namespace methods {
namespace {

constexpr double kCapacity = 16e9;

trials::SearchSpace Space() {
  std::vector<trials::ParallelConfig> configs;
  for (int dp = 1; dp <= 8; ++dp) {
    for (int tp = 1; tp <= 8; ++tp) {
      configs.push_back({.dp = dp, .tp = tp});
    }
  }
  return trials::SearchSpace(configs);
}

void Try(const trials::SearchSpace& space, int candidate, History& history) {
  trials::Measurement measurement;
  measurement.outcome = trials::Outcome::kCompleted;
  const double step_s =
      1.0 / space[candidate].dp + 0.1 * std::sin(space[candidate].tp);
  measurement.step_times_s = {step_s, 1.01 * step_s, 0.99 * step_s, step_s};
  measurement.peak_memory_bytes = 0.1 * kCapacity * space[candidate].tp;
  history.Add(MakeTrial(candidate, space[candidate], measurement));
}

int Evaluations(const std::vector<Suggestion::Fit>& fits) {
  int sum = 0;
  for (const Suggestion::Fit& fit : fits) {
    sum += fit.summary.evaluations;
  }
  return sum;
}

class SurrogatePairTest : public testing::Test {
 protected:
  [[nodiscard]] SurrogatePair Make(int refit_every_trial_until) const {
    return {problem_,
            {.throughput_prior = surrogates::CostModelForm::kNone,
             .memory_prior = surrogates::CostModelForm::kNone,
             .refit_every_trial_until = refit_every_trial_until}};
  }

  trials::SearchSpace space_ = Space();
  Problem problem_{.space = &space_, .memory_capacity_bytes = kCapacity};
};

TEST_F(SurrogatePairTest, LearnsAnewOnlyWhenManyObservationsHaveGrownByATenth) {
  SurrogatePair pair = Make(20);
  History history(space_.size());
  for (int i = 0; i < 24; ++i) {
    Try(space_, (i * 13) % 64, history);
    const bool fitted = Evaluations(pair.Fit(history)) > 0;
    // 20 are at the limit; 22 are a tenth more, 23 and 24 are not yet again.
    EXPECT_EQ(fitted, i != 20 && i < 22) << i + 1 << " observations";
  }
}

TEST_F(SurrogatePairTest, BelievesNearlyTheSameWithAndWithoutLearningAnew) {
  SurrogatePair appending = Make(20);
  SurrogatePair fitting = Make(1000);
  History history(space_.size());
  surrogates::Prediction r, m, fitted_r, fitted_m;
  for (int i = 0; i < 21; ++i) {
    Try(space_, (i * 13) % 64, history);
    (void)fitting.Fit(history);
    (void)appending.Fit(history);
  }
  appending.Predict(r, m);
  fitting.Predict(fitted_r, fitted_m);
  EXPECT_LT((r.mean - fitted_r.mean).norm(), 0.1 * fitted_r.mean.norm());
  EXPECT_LT((m.mean - fitted_m.mean).norm(), 0.1 * fitted_m.mean.norm());
}

// The pruned search of a pair, against the beliefs about every candidate.
TEST_F(SurrogatePairTest, ChoosesWhatItsOwnPredictionsSay) {
  SurrogatePair pair = Make(100);
  History history(space_.size());
  for (int i = 0; i < 12; ++i) {
    Try(space_, (i * 13) % 64, history);
    (void)pair.Fit(history);
    const SurrogatePair::Choice choice =
        pair.ArgMaxConstrainedUcb(1.0, history.tried());
    surrogates::Prediction r, m;
    pair.Predict(r, m);
    ASSERT_EQ(choice.candidate,
              ArgMaxConstrainedUcb(
                  r, MemoryExcess(m, 1.0, 0.025), 1.0, history.tried()));
    EXPECT_EQ(choice.throughput_mean, r.mean[choice.candidate]);
    EXPECT_EQ(choice.memory_variance, m.variance[choice.candidate]);
  }
}

}  // namespace
}  // namespace methods
