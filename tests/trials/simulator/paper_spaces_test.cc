#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/trials/simulator/paper_problem.h"
#include "trials/simulator/simulator.h"

// The simulator on the problems of the experiments, over their whole spaces.

namespace trials::paper_spaces_test {

class PaperSpace : public testing::TestWithParam<const char*> {};

TEST_P(PaperSpace, EveryConfigurationIsSimulatedAndItsPartsAddUp) {
  const PaperProblem problem(GetParam());
  const Simulator simulator(problem.workload, problem.cluster);
  int fitting = 0;
  const SearchSpace space = problem.Space();
  for (const ParallelConfig& config : space.configs()) {
    const StepReport report = simulator.Simulate(config);
    ASSERT_GT(report.step_time_s, 0.0) << ToString(config);
    ASSERT_NEAR(report.time.Total() / report.step_time_s, 1.0, 1e-9)
        << ToString(config);
    ASSERT_NEAR(report.memory.Total() / report.peak_memory_bytes, 1.0, 1e-9)
        << ToString(config);
    ASSERT_GE(report.time.bubble_s, 0.0) << ToString(config);
    ASSERT_GE(report.time.data_s, 0.0) << ToString(config);
    ASSERT_TRUE(report.model_states_fit || !report.fits) << ToString(config);
    fitting += report.fits ? 1 : 0;
  }
  EXPECT_GT(fitting, 0);
}

TEST_P(PaperSpace, MemoisedResultsAreThoseOfAFreshSimulatorInAnyOrder) {
  const PaperProblem problem(GetParam());
  const SearchSpace space = problem.Space();
  const Simulator forwards(problem.workload, problem.cluster);
  const Simulator backwards(problem.workload, problem.cluster);
  const int stride = space.size() / 300 + 1;
  const int count = space.size() / stride;
  std::vector<StepReport> reports;
  for (int i = 0; i < count; ++i) {
    reports.push_back(forwards.Simulate(space[i * stride]));
  }
  for (int i = count - 1; i >= 0; --i) {
    SCOPED_TRACE(ToString(space[i * stride]));
    EXPECT_EQ(backwards.Simulate(space[i * stride]), reports[i]);
    EXPECT_EQ(problem.Simulate(space[i * stride]), reports[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Simulator, PaperSpace,
                         testing::Values("bert-8gpu", "qwen-8gpu",
                                         "llama1b-16gpu", "llama7b-32gpu"),
                         [](const auto& space) {
                           std::string name = space.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// Of a knob, how often each direction is faster on the problems of the paper.
struct Directions {
  int more = 0;
  int less = 0;
};

template <typename Value>
Directions Faster(Value ParallelConfig::*knob,
                  const std::vector<Value>& values) {
  Directions count;
  for (const char* name : {"bert-8gpu", "llama7b-32gpu"}) {
    const PaperProblem problem(name);
    const Simulator simulator(problem.workload, problem.cluster);
    const SearchSpace space = problem.Space();
    for (int i = 0; i < space.size(); i += 7) {
      ParallelConfig config = space[i];
      if (config.zero_stage == 0) {
        continue;
      }
      config.*knob = values.front();
      const double less_s = simulator.Simulate(config).step_time_s;
      config.*knob = values.back();
      const double more_s = simulator.Simulate(config).step_time_s;
      count.more += more_s < less_s ? 1 : 0;
      count.less += less_s < more_s ? 1 : 0;
    }
  }
  return count;
}

TEST(PaperProblems, NoOverlapAndNoBucketIsAlwaysFaster) {
  using Config = ParallelConfig;
  for (const Directions& count :
       {Faster(&Config::overlap_zero_comm, {false, true}),
        Faster(&Config::overlap_zero_allgather, {false, true}),
        Faster(&Config::zero_bucket_mb, {16, 1024})}) {
    EXPECT_GT(count.more, 0);
    EXPECT_GT(count.less, 0);
  }
}

// Interleaving keeps more microbatches in flight.
TEST(PaperProblems, InterleavingTakesMoreMemoryAndLessBubble) {
  const PaperProblem problem("llama1b-16gpu");
  ParallelConfig config{.dp = 4, .pp = 4, .microbatches = 4};
  const StepReport plain = problem.Simulate(config);
  config.model_chunks = 4;
  const StepReport interleaved = problem.Simulate(config);
  EXPECT_LT(interleaved.time.bubble_s, plain.time.bubble_s);
  EXPECT_GT(interleaved.memory.activations_bytes,
            plain.memory.activations_bytes);
}

TEST(PaperProblems, AnyNumberOfGpusWillDo) {
  PaperProblem problem("bert-8gpu");
  problem.cluster.gpus_per_node = 6;
  problem.cluster.gpus_per_switch = 3;
  problem.workload.batch_size = 96;
  for (const ParallelConfig& config :
       {ParallelConfig{.dp = 6}, ParallelConfig{.dp = 2, .tp = 3},
        ParallelConfig{.dp = 2, .pp = 3, .microbatches = 6},
        ParallelConfig{.pp = 6, .microbatches = 12, .model_chunks = 2}}) {
    const StepReport report = problem.Simulate(config);
    EXPECT_GT(report.step_time_s, 0.0);
    EXPECT_NEAR(report.time.Total(), report.step_time_s, 1e-12);
  }
}

}  // namespace trials::paper_spaces_test
