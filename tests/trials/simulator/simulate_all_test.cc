#include "trials/simulator/simulate_all.h"

#include <stdexcept>

#include <gtest/gtest.h>

#include "tests/trials/simulator/paper_problem.h"

namespace trials::simulate_all_test {

TEST(SimulateAll, GivesTheSameOnAnyNumberOfThreads) {
  const PaperProblem problem("qwen-8gpu");
  const SearchSpace space = problem.Space();
  const auto make = [&] {
    return Simulator(problem.workload, problem.cluster);
  };
  const std::vector<StepReport> one = SimulateAll(space.configs(), 1, make);
  const std::vector<StepReport> three = SimulateAll(space.configs(), 3, make);
  ASSERT_EQ(one.size(), three.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    ASSERT_EQ(one[i].step_time_s, three[i].step_time_s);
    ASSERT_EQ(one[i].peak_memory_bytes, three[i].peak_memory_bytes);
  }
}

TEST(SimulateAll, PassesOnWhatATaskThrows) {
  const PaperProblem problem("qwen-8gpu");
  const std::vector<ParallelConfig> configs(2000, ParallelConfig{.dp = 3});
  EXPECT_THROW(
      (void)SimulateAll(
          configs, 2,
          [&] { return Simulator(problem.workload, problem.cluster); }),
      std::invalid_argument);
}

}  // namespace trials::simulate_all_test
