#include "trials/wrappers/sized_runner.h"

#include <stdexcept>

#include <gtest/gtest.h>

#include "tests/fakes/fake_runner.h"

namespace trials::sized_runner_test {

TEST(SizedRunner, RunsAConfigurationWithTheRunnerOfItsNumberOfGpus) {
  std::map<int, std::unique_ptr<TrialRunner>> runners;
  for (const int gpus : {2, 4}) {
    auto runner = std::make_unique<fakes::FakeRunner>();
    runner->setup_s = gpus;
    runner->max_dp = gpus - 1;  // dp of all GPUs is out of memory
    runners.emplace(gpus, std::move(runner));
  }
  SizedRunner runner(std::move(runners));
  EXPECT_EQ(runner.Run({.candidate = ParallelConfig{.tp = 2}}).setup_s, 2.0);
  EXPECT_EQ(runner.Run({.candidate = ParallelConfig{.tp = 2, .cp = 2}}).setup_s,
            4.0);
  EXPECT_EQ(runner.Run({.candidate = ParallelConfig{.tp = 3}}).setup_s,
            4.0);  // rejects it
  EXPECT_EQ(runner.ExactThroughput(ParallelConfig{.dp = 2}), 0.0);
  EXPECT_GT(runner.ExactThroughput(ParallelConfig{.dp = 2, .tp = 2}), 0.0);
}

TEST(SizedRunner, RefusesPlansAndNoRunners) {
  EXPECT_THROW(SizedRunner({}), std::invalid_argument);
  std::map<int, std::unique_ptr<TrialRunner>> runners;
  runners.emplace(1, std::make_unique<fakes::FakeRunner>());
  SizedRunner runner(std::move(runners));
  TrialRequest request;
  request.candidate = UniformPlan(ParallelConfig{}, 2);
  EXPECT_THROW((void)runner.Run(request), std::logic_error);
}

}  // namespace trials::sized_runner_test
