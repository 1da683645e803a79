#include "surrogates/boosted_trees/boosted_trees.h"

#include <cmath>

#include <gtest/gtest.h>

#include "tests/fakes/grid.h"

namespace surrogates::boosted_trees_test {

trials::SearchSpace Space() {
  return trials::SearchSpace(
      fakes::Grid({{"dp", {1, 2, 4, 8}}, {"zero_stage", {0, 1, 2}}}));
}

Observations All(const trials::SearchSpace& space, double unit) {
  Observations observations;
  observations.value.resize(space.size());
  for (int i = 0; i < space.size(); ++i) {
    observations.candidate.push_back(i);
    observations.value[i] = unit * (space[i].dp >= 4 ? 2.0 : 1.0);
  }
  observations.noise_variance = Eigen::VectorXd::Zero(space.size());
  return observations;
}

TEST(BoostedTrees, LearnAStepInOneField) {
  const trials::SearchSpace space = Space();
  BoostedTrees trees(space, {.rounds = 100});
  (void)trees.Fit(All(space, 1.0));
  Prediction prediction;
  trees.Predict(prediction);
  for (int i = 0; i < space.size(); ++i) {
    EXPECT_NEAR(prediction.mean[i], space[i].dp >= 4 ? 2.0 : 1.0, 0.02);
  }
}

TEST(BoostedTrees, RankingLearnsTheOrderAndNotTheScale) {
  const trials::SearchSpace space = Space();
  BoostedTrees trees(space, {.objective = TreeObjective::kPairwiseRanking});
  Prediction prediction;
  Prediction steeper;
  Observations observations = All(space, 1.0);
  (void)trees.Fit(observations);
  trees.Predict(prediction);
  for (int i = 0; i < space.size(); ++i) {
    EXPECT_EQ(prediction.mean[i] > 1.0, space[i].dp >= 4) << i;
  }
  // Another distance in the same order, with the same largest value.
  for (double& value : observations.value) {
    value = value < 2.0 ? 0.1 : value;
  }
  (void)trees.Fit(observations);
  trees.Predict(steeper);
  EXPECT_EQ(prediction.mean, steeper.mean);
}

// Without regularization, each round halves what is left of a difference.
TEST(BoostedTrees, EveryRoundRemovesItsShareOfTheError) {
  const trials::SearchSpace space = Space();
  for (const int rounds : {1, 2, 5}) {
    BoostedTrees trees(space, {.rounds = rounds,
                               .max_depth = 1,
                               .eta = 0.5,
                               .min_child_weight = 0.0,
                               .lambda = 0.0});
    (void)trees.Fit(All(space, 1.0));
    Prediction prediction;
    trees.Predict(prediction);
    EXPECT_NEAR(prediction.mean[space.size() - 1] - prediction.mean[0],
                1.0 - std::pow(0.5, rounds), 1e-5)
        << rounds;
  }
}

TEST(BoostedTrees, LearnFromTwoObservations) {
  const trials::SearchSpace space = Space();
  BoostedTrees trees(space, {.rounds = 200, .min_child_weight = 0.0});
  (void)trees.Fit({{0, space.size() - 1},
                   Eigen::Vector2d(3.0, 1.0),
                   Eigen::Vector2d::Zero()});
  Prediction prediction;
  trees.Predict(prediction);
  EXPECT_NEAR(prediction.mean[0], 3.0, 0.1);
  EXPECT_NEAR(prediction.mean[space.size() - 1], 1.0, 0.1);
}

TEST(BoostedTrees, PredictionsScaleWithTheUnitOfTheTarget) {
  const trials::SearchSpace space = Space();
  Prediction prediction;
  Prediction scaled;
  BoostedTrees trees(space, {});
  (void)trees.Fit(All(space, 1.0));
  trees.Predict(prediction);
  for (const double unit : {1e-3, 1e3}) {
    (void)trees.Fit(All(space, unit));
    trees.Predict(scaled);
    EXPECT_TRUE(scaled.mean.isApprox(unit * prediction.mean, 1e-6)) << unit;
  }
}

TEST(BoostedTrees, PredictZeroBeforeAnyObservation) {
  const trials::SearchSpace space = Space();
  BoostedTrees trees(space, {});
  (void)trees.Fit({});
  Prediction prediction;
  trees.Predict(prediction);
  EXPECT_EQ(prediction.mean, Eigen::VectorXd::Zero(space.size()));
}

TEST(BoostedTrees, OnlyFailuresIsNoDivisionByZero) {
  const trials::SearchSpace space = Space();
  BoostedTrees trees(space, {});
  Observations observations = All(space, 0.0);
  (void)trees.Fit(observations);
  Prediction prediction;
  trees.Predict(prediction);
  EXPECT_TRUE(prediction.mean.allFinite());
}

}  // namespace surrogates::boosted_trees_test
