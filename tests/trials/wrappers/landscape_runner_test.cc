#include "trials/wrappers/landscape_runner.h"

#include <cmath>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "tests/fakes/grid.h"
#include "tests/trials/wrappers/fake_runner.h"

namespace trials::landscape_runner_test {

std::vector<ParallelConfig> Space() {
  return fakes::Grid({{"tp", {1, 2, 4, 8}},
                      {"pp", {2, 4, 8, 16}},
                      {"microbatches", {16, 32, 64, 128}},
                      {"grad_checkpoint", {0, 1, 2}}},
                     {.dp = 2});
}

// Mean and standard deviation of the logarithm of the factors of a space.
std::pair<double, double> Moments(const LandscapeOptions& options) {
  const std::vector<ParallelConfig> configs = Space();
  const Landscape landscape(options, configs);
  double sum = 0.0;
  double squares = 0.0;
  for (const ParallelConfig& config : configs) {
    const double log = std::log(landscape.TimeFactor(config));
    sum += log;
    squares += log * log;
  }
  const auto n = static_cast<double>(configs.size());
  return {sum / n, std::sqrt(squares / n - sum * sum / n / n)};
}

TEST(Landscape, HasItsStandardDeviationOverTheSpace) {
  const auto [mean, deviation] = Moments({.pairs = 0.05});
  EXPECT_NEAR(mean, 0.0, 1e-12);
  EXPECT_NEAR(deviation, 0.05, 1e-12);
  EXPECT_NEAR(Moments({.independent = 0.05}).second, 0.05, 0.01);
}

TEST(Landscape, DependsOnItsSeedAndNothingElse) {
  const std::vector<ParallelConfig> configs = Space();
  const Landscape a({0.05, 0.05, 1}, configs);
  const Landscape same({0.05, 0.05, 1}, configs);
  const Landscape other({0.05, 0.05, 2}, configs);
  EXPECT_EQ(a.TimeFactor(configs[7]), same.TimeFactor(configs[7]));
  EXPECT_NE(a.TimeFactor(configs[7]), other.TimeFactor(configs[7]));
}

TEST(Landscape, AnInactiveKnobHasNoEffect) {
  const std::vector<ParallelConfig> configs = Space();
  const Landscape landscape({0.05, 0.05, 1}, configs);
  ParallelConfig config{.dp = 8};
  const double factor = landscape.TimeFactor(config);
  config.model_chunks = 8;  // has an effect only with a pipeline
  EXPECT_EQ(landscape.TimeFactor(config), factor);
}

TEST(LandscapeRunner, StepsAndExactThroughputDeviateByTheSameFactor) {
  const std::vector<ParallelConfig> configs = Space();
  const auto landscape = std::make_shared<const Landscape>(
      LandscapeOptions{.pairs = 0.1}, configs);
  LandscapeRunner runner(std::make_unique<FakeRunner>(), landscape);
  for (const ParallelConfig& config : configs) {
    const double factor = landscape->TimeFactor(config);
    std::vector<double> seen;
    const Measurement trial = runner.Run({.candidate = config,
                                          .max_steps = 3,
                                          .on_step = [&](double step_time_s) {
                                            seen.push_back(step_time_s);
                                            return true;
                                          }});
    EXPECT_EQ(trial.step_times_s, std::vector<double>(3, factor));
    EXPECT_EQ(seen, trial.step_times_s);
    EXPECT_NEAR(trial.duration_s,
                FakeRunner::kSetup_s + FakeRunner::kTeardown_s + 3.0 * factor,
                1e-12);
    EXPECT_EQ(runner.ExactThroughput(config), 1.0 / factor);
  }
}

TEST(LandscapeRunner, AFailedTrialIsUnchanged) {
  const auto landscape = std::make_shared<const Landscape>(
      LandscapeOptions{.independent = 0.1}, Space());
  LandscapeRunner runner(std::make_unique<FakeRunner>(Outcome::kOutOfMemory),
                         landscape);
  const Measurement trial = runner.Run({.candidate = Space().front()});
  EXPECT_EQ(trial.outcome, Outcome::kOutOfMemory);
  EXPECT_EQ(trial.duration_s,
            FakeRunner::kSetup_s + FakeRunner::kTeardown_s + 60.0);
}

TEST(LandscapeRunner, RefusesPlans) {
  LandscapeRunner runner(std::make_unique<FakeRunner>(), nullptr);
  EXPECT_THROW((void)runner.Run({.candidate = UniformPlan({.dp = 2}, 4)}),
               std::logic_error);
}

TEST(Landscape, AKnobWithASingleValueIsInNoPair) {
  const std::vector<ParallelConfig> configs = {{.dp = 1}, {.dp = 2}, {.dp = 4}};
  const Landscape landscape({.pairs = 0.05}, configs);
  for (const ParallelConfig& config : configs) {
    EXPECT_EQ(landscape.TimeFactor(config), 1.0);
  }
  EXPECT_EQ(landscape.TimeFactor({.dp = 8, .tp = 8}), 1.0);
}

}  // namespace trials::landscape_runner_test
