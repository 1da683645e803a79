#include <set>
#include <string>

#include <gtest/gtest.h>

#include "studies/calibration/collect.h"
#include "studies/calibration/held_out.h"
#include "studies/calibration/scores.h"
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
  EXPECT_DOUBLE_EQ(scores[1], 1.0 / 3.0);
  EXPECT_DOUBLE_EQ(scores[2], 1.0);
  EXPECT_DOUBLE_EQ(scores[3], 0.5);
  EXPECT_DOUBLE_EQ(scores[4], 0.5);
  EXPECT_EQ(scores[5], 0.0);  // candidate 3: said to run and be the fastest
}

TEST(Scores, IntervalsAreThoseThatPeopleAreTold) {
  Models models = SomeModels();
  models.reported = {models.throughput.mean,
                     Eigen::VectorXd::Constant(5, 0.04)};
  const Scores reported = Score(models, Five(), {0, 0, 0, 0, 0});
  EXPECT_DOUBLE_EQ(reported[1], 1.0);  // errors of 0.5 within 0.2 t_4
  const Scores searched = Score(SomeModels(), Five(), {0, 0, 0, 0, 0});
  EXPECT_NEAR(reported[7] / searched[7], 2.776445 / 1.959964, 1e-6);
  EXPECT_EQ(reported[2], searched[2]);
  EXPECT_EQ(reported[5], searched[5]);  // the pick is the search's
}

TEST(Scores, WhatWasSeenDoesNotCount) {
  const Scores scores = Score(SomeModels(), Five(), {1, 0, 0, 1, 0});
  EXPECT_DOUBLE_EQ(scores[1], 0.5);
  EXPECT_DOUBLE_EQ(scores[4], 1.0);
  EXPECT_DOUBLE_EQ(scores[5], 2.0 / 3.0);  // candidate 1 of at best 3
}

TEST(Scores, ConfusionCountsEveryUnseenConfigurationOnce) {
  const Confusion c = ConfusionOf(SomeModels(), Five(), {0, 1, 0, 0, 0});
  EXPECT_EQ(c.runs_predicted_runs, 1);
  EXPECT_EQ(c.runs_predicted_fails, 1);
  EXPECT_EQ(c.fails_predicted_runs, 1);
  EXPECT_EQ(c.fails_predicted_fails, 1);
}

TEST(Calibration, FitsEveryVariantAtEveryNumberOfTrials) {
  const harness::Manifest manifest =
      harness::ReadManifest(fakes::SourceFolder() / "experiments/smoke.toml");
  std::vector<Variant> variants = Variants();
  std::erase_if(variants, [](const Variant& variant) {
    return variant.name != "ours" && variant.name != "xgboost";
  });
  std::set<int> trials;
  ScoreTable scores;
  PredictionFigures figures;
  LengthScaleTable table5;
  FitHeldOut(manifest, manifest.problems.front(), 1, variants,
             [&](const Fitted& fitted) {
               trials.insert(fitted.trials);
               int ran = 0;
               for (const auto& entry : fitted.all.trials()) {
                 ran += entry.HasThroughput() && fitted.seen[entry.candidate];
               }
               EXPECT_EQ(ran, fitted.trials);
               scores.Add(fitted);
               figures.Add(fitted);
               table5.Add(fitted);
             });
  EXPECT_EQ(trials, (std::set<int>{4, 8, 10, 20, 40}));
  EXPECT_EQ(scores.Take().table.rows.size(), 10U);
  const Output predictions = figures.Take();
  ASSERT_EQ(predictions.figures.size(), 3U);
  EXPECT_EQ(predictions.figures[0].name, "predicted-smoke");
  EXPECT_EQ(predictions.figures[0].panels.size(), 2U);  // ours at 10 and 20
  EXPECT_EQ(predictions.table.rows.size(), 2U);
  EXPECT_EQ(table5.Take().table.columns.back().title, "smoke");
}

}  // namespace studies::calibration_test
