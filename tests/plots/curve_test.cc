#include "plots/curve.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "tests/plots/synthetic_experiment.h"

namespace plots::curve_test {

using enum trials::Outcome;
constexpr double kForever = std::numeric_limits<double>::infinity();

// Set-up is 0 here, so a trial steps during its whole duration.
Run SomeRun() {
  return {.repeat = 1,
          .trials = plots_test::Trials({{kOutOfMemory, 10, 0},
                                        {kCompleted, 30, 20, 1.0, 0.9},
                                        {kTerminatedEarly, 35, 5, 3.0, 3.0},
                                        {kCompleted, 60, 20, 0.8, 0.8},
                                        {kCompleted, 80, 20, 2.0, 2.1}}),
          .finished = true,
          .finish_reason = trials::FinishReason::kTrialBudget};
}

TEST(IncumbentCurve, IsTheBestOfTheCompletedTrialsOnly) {
  const StepCurve curve =
      IncumbentCurve(SomeRun(), {}, Cost::kTime, Value::kMeasured);
  EXPECT_EQ(curve.x, (std::vector<double>{30, 80}));
  EXPECT_EQ(curve.y, (std::vector<double>{1.0, 2.0}));
}

TEST(IncumbentCurve, IsZeroBeforeTheFirstIncumbentAndHoldsAfterEach) {
  const StepCurve curve =
      IncumbentCurve(SomeRun(), {}, Cost::kTime, Value::kMeasured);
  EXPECT_EQ(ValueAt(curve, 0), 0.0);
  EXPECT_EQ(ValueAt(curve, 29.9), 0.0);
  EXPECT_EQ(ValueAt(curve, 30), 1.0);
  EXPECT_EQ(ValueAt(curve, 79.9), 1.0);
  EXPECT_EQ(ValueAt(curve, 80), 2.0);
  EXPECT_EQ(ValueAt(curve, 1e9), 2.0);
}

TEST(IncumbentCurve, CountsFailedAndCutTrialsInEveryCost) {
  EXPECT_EQ(IncumbentCurve(SomeRun(), {}, Cost::kTrials, Value::kMeasured).x,
            (std::vector<double>{2, 5}));
  EXPECT_EQ(IncumbentCurve(SomeRun(), {}, Cost::kSteps, Value::kMeasured).x,
            (std::vector<double>{20, 65}));
}

TEST(IncumbentCurve, CanShowTheNoiseFreeValueOfTheSameTrials) {
  EXPECT_EQ(IncumbentCurve(SomeRun(), {}, Cost::kTrials, Value::kExact).y,
            (std::vector<double>{0.9, 2.1}));
}

TEST(IncumbentCurve, LastsForeverOnlyWhereMoreWouldChangeNothing) {
  const auto known_to = [](const plots::Run& run,
                           const trials::ProblemInfo& problem, Cost cost) {
    return IncumbentCurve(run, problem, cost, Value::kMeasured).known_to;
  };
  auto run = SomeRun();
  const trials::ProblemInfo with_budget{.time_budget_s = 100.0};
  EXPECT_EQ(known_to(run, {}, Cost::kTime), 80.0);
  EXPECT_EQ(known_to(run, with_budget, Cost::kTime), kForever);
  EXPECT_EQ(known_to(run, with_budget, Cost::kTrials), 5.0);
  run.finish_reason = trials::FinishReason::kMethodDone;
  EXPECT_EQ(known_to(run, {}, Cost::kTrials), kForever);
  run.finished = false;
  EXPECT_EQ(known_to(run, with_budget, Cost::kTime), 80.0);
}

TEST(TrialCountCurve, CountsEveryTrialWhenItEnds) {
  const StepCurve curve = TrialCountCurve(SomeRun(), {});
  EXPECT_EQ(ValueAt(curve, 9.9), 0.0);
  EXPECT_EQ(ValueAt(curve, 34.9), 2.0);
  EXPECT_EQ(ValueAt(curve, 80), 5.0);
}

TEST(TrainingSteps, AreThoseOfTheTrialsAndThenOfTheIncumbent) {
  const auto run = SomeRun();
  EXPECT_DOUBLE_EQ(TrainingStepsAt(run, 0), 0.0);
  EXPECT_DOUBLE_EQ(TrainingStepsAt(run, 10), 0.0);
  EXPECT_DOUBLE_EQ(TrainingStepsAt(run, 20), 10.0);  // half of 20 steps
  EXPECT_DOUBLE_EQ(TrainingStepsAt(run, 35), 25.0);
  EXPECT_DOUBLE_EQ(TrainingStepsAt(run, 80), 65.0);
  EXPECT_DOUBLE_EQ(TrainingStepsAt(run, 180), 65.0 + 100.0 * 2.0);
}

TEST(TrainingSteps, BeginAfterTheSetUpOfATrial) {
  auto run = SomeRun();
  run.trials[1].measurement.setup_s = 10.0;  // of the 20 s from 10 to 30
  EXPECT_DOUBLE_EQ(TrainingStepsAt(run, 20), 0.0);
  EXPECT_DOUBLE_EQ(TrainingStepsAt(run, 25), 10.0);
}

TEST(TrainingSteps, StopWithTheSearchOfARunThatFoundNothing) {
  const plots::Run run{.trials = plots_test::Trials({{kOutOfMemory, 10, 0}})};
  EXPECT_DOUBLE_EQ(TrainingStepsAt(run, 1000), 0.0);
  EXPECT_DOUBLE_EQ(TrainingStepsAt(plots::Run{}, 1000), 0.0);
}

StepCurve Flat(double value, double known_to) {
  return {.x = {1.0}, .y = {value}, .known_to = known_to};
}

TEST(Aggregate, TakesMedianAndQuartilesOverRuns) {
  const Band band = Aggregate({Flat(1, 10), Flat(2, 10), Flat(4, 10)}, {0, 5});
  EXPECT_EQ(band.y[0].median, 0.0);
  EXPECT_EQ(band.y[1].q1, 1.5);
  EXPECT_EQ(band.y[1].median, 2.0);
  EXPECT_EQ(band.y[1].q3, 3.0);
}

TEST(Aggregate, EndsTheLineWhereFewerThanHalfOfTheRunsAreKnown) {
  const std::vector<StepCurve> curves = {Flat(1, 3), Flat(2, 5), Flat(4, 7),
                                         Flat(8, 9)};
  const Band band = Aggregate(curves, {5, 6, 7, 7.5});
  EXPECT_EQ(band.y[0].median, 3.0);
  EXPECT_EQ(band.y[1].median, 3.0);  // runs that ended keep their value
  EXPECT_EQ(band.y[2].median, 3.0);
  EXPECT_TRUE(std::isnan(band.y[3].median));
  EXPECT_EQ(LineEnd(curves), 7.0);
}

TEST(Aggregate, OfNoRunsHasNoLine) {
  EXPECT_TRUE(std::isnan(Aggregate({}, {1.0}).y[0].median));
  EXPECT_EQ(LineEnd({}), 0.0);
}

TEST(UniformGrid, IncludesBothEnds) {
  EXPECT_EQ(UniformGrid(0, 20, 5), (std::vector<double>{0, 5, 10, 15, 20}));
}

}  // namespace plots::curve_test
