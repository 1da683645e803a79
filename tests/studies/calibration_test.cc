#include "studies/calibration/calibration.h"

#include <algorithm>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "tests/fakes/paths.h"

namespace studies::calibration_test {

trials::Measurement Ran(double steps_per_s, double memory_bytes) {
  return {.outcome = trials::Outcome::kCompleted,
          .step_times_s = std::vector<double>(4, 1.0 / steps_per_s),
          .peak_memory_bytes = memory_bytes};
}

const trials::Measurement kOutOfMemory{.outcome =
                                           trials::Outcome::kOutOfMemory};

// Five candidates: three run with 1, 2 and 3 steps/s, two run out of memory.
methods::History Five() {
  methods::History all(5);
  all.Add(trials::MakeTrial(0, {}, Ran(1.0, 1e9)));
  all.Add(trials::MakeTrial(1, {}, Ran(2.0, 2e9)));
  all.Add(trials::MakeTrial(2, {}, Ran(3.0, 3e9)));
  all.Add(trials::MakeTrial(3, {}, kOutOfMemory));
  all.Add(trials::MakeTrial(4, {}, kOutOfMemory));
  return all;
}

Models SomeModels() {
  Eigen::VectorXd throughput(5);
  throughput << 1.5, 2.5, 2.9, 4.0, 0.1;
  Eigen::VectorXd memory(5);
  memory << 0.5, 0.6, 1.3, 0.7, 1.4;  // one mistake of each kind
  return {.throughput = {throughput, Eigen::VectorXd::Constant(5, 0.04)},
          .memory = {memory, Eigen::VectorXd::Constant(5, 1e-6)}};
}

TEST(Scores, AreThoseOfTheirDefinitionsOnFiveCandidates) {
  const Scores scores = Score(SomeModels(), Five(), {0, 0, 0, 0, 0});
  // Errors of 0.5, 0.5 and 0.1 at a deviation of 0.2.
  EXPECT_DOUBLE_EQ(scores[0], 1.0 / 3.0);
  EXPECT_DOUBLE_EQ(scores[1], 1.0);
  EXPECT_DOUBLE_EQ(scores[2], 0.5);
  EXPECT_DOUBLE_EQ(scores[3], 0.5);
  EXPECT_EQ(scores[4], 0.0);  // candidate 3: said to run and be the fastest
}

TEST(Scores, IntervalsAreThoseThatPeopleAreTold) {
  Models models = SomeModels();
  models.reported = {models.throughput.mean,
                     Eigen::VectorXd::Constant(5, 0.04)};
  const Scores reported = Score(models, Five(), {0, 0, 0, 0, 0});
  EXPECT_DOUBLE_EQ(reported[0], 1.0);  // errors of 0.5 within 0.2 t_4
  const Scores searched = Score(SomeModels(), Five(), {0, 0, 0, 0, 0});
  EXPECT_EQ(reported[1], searched[1]);
}

TEST(Scores, WhatWasSeenDoesNotCount) {
  Models models = SomeModels();
  models.memory.mean[3] = 1.1;
  const Scores scores = Score(models, Five(), {1, 0, 0, 1, 0});
  EXPECT_DOUBLE_EQ(scores[0], 0.5);
  EXPECT_DOUBLE_EQ(scores[3], 1.0);
  // Candidate 1 of at best 3: the best prediction of all that fit.
  EXPECT_DOUBLE_EQ(scores[4], 2.0 / 3.0);
}

TEST(Scores, ConfusionCountsEveryUnseenConfigurationOnce) {
  const Confusion c = ConfusionOf(SomeModels(), Five(), {0, 1, 0, 0, 0});
  EXPECT_EQ(c.runs_predicted_runs, 1);
  EXPECT_EQ(c.runs_predicted_fails, 1);
  EXPECT_EQ(c.fails_predicted_runs, 1);
  EXPECT_EQ(c.fails_predicted_fails, 1);
}

TEST(Calibration, FitsEverySurrogateToTheTrialsOfItsOwnSearch) {
  const harness::Manifest manifest =
      harness::ReadManifest(fakes::SourceFolder() / "experiments/smoke.toml");
  std::map<std::string, std::vector<char>> seen;
  Collection collection;
  FitToSearches(manifest, manifest.problems.front(), 1, Variants(),
                [&](const Fitted& fitted) {
                  EXPECT_EQ(
                      std::count(fitted.seen.begin(), fitted.seen.end(), 1),
                      fitted.trials);
                  seen[fitted.variant.name] = fitted.seen;
                  collection.Add(fitted);
                });
  EXPECT_EQ(seen["ours"], seen["ours, as searched"]);
  EXPECT_NE(seen["ours"], seen["vanilla BO"]);
  const std::vector<Output> outputs = collection.Take();
  EXPECT_EQ(outputs[2].table.rows.size(), 2 * Variants().size());
  const Output& predictions = outputs[0];
  ASSERT_EQ(predictions.figures.size(), 2U);
  EXPECT_EQ(predictions.figures[0].name, "predicted-smoke");
  EXPECT_EQ(predictions.figures[0].panels.size(), 8U);
  EXPECT_EQ(predictions.figures[1].panels.size(), 3U);
  EXPECT_EQ(outputs[1].table.columns.back().title, "smoke, OPPA");
}

}  // namespace studies::calibration_test
