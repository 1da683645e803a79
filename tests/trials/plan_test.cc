#include "trials/plan.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trials/simulator/paper_problem.h"
#include "tests/trials/simulator/problem.h"
#include "trials/simulator/simulator.h"

namespace trials {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PlanOfPaperProblem : public testing::TestWithParam<const char*> {};

TEST_P(PlanOfPaperProblem, EqualStagesGiveTheConfigurationToTheLastBit) {
  const PaperProblem problem(GetParam());
  const Simulator simulator(problem.workload, problem.cluster);
  const SearchSpace space = problem.Space();
  for (int i = 0; i < space.size(); i += space.size() / 200 + 1) {
    SCOPED_TRACE(ToString(space[i]));
    EXPECT_EQ(simulator.Simulate(
                  UniformPlan(space[i], problem.workload.model.layers)),
              simulator.Simulate(space[i]));
  }
}

INSTANTIATE_TEST_SUITE_P(All,
                         PlanOfPaperProblem,
                         testing::Values("bert-8gpu",
                                         "qwen-8gpu",
                                         "llama1b-16gpu",
                                         "llama7b-32gpu"));

TEST(Plan, LayersAreDealtOutEvenlyWithTheRestInTheMiddle) {
  EXPECT_THAT(DistributeLayers(12, 4), ElementsAre(3, 3, 3, 3));
  EXPECT_THAT(DistributeLayers(14, 4), ElementsAre(3, 4, 4, 3));
  for (const int layers : {12, 16, 28, 32}) {
    for (int stages = 1; stages <= layers; ++stages) {
      const std::vector<int> dealt = DistributeLayers(layers, stages);
      EXPECT_EQ(std::accumulate(dealt.begin(), dealt.end(), 0), layers);
      const auto [least, most] =
          std::minmax_element(dealt.begin(), dealt.end());
      EXPECT_LE(*most - *least, 1);
      EXPECT_GE(*least, 1);
    }
  }
}

// Four stages on the eight GPUs of the small problem.
Plan FourStages() {
  return UniformPlan(ParseParallelConfig("dp=2,tp=1,pp=4,microbatches=8"), 8);
}

Simulator Small() { return {SmallWorkload(), SmallCluster()}; }

TEST(Plan, ALayerMovedOffTheSlowestStageMakesTheStepShorter) {
  const Simulator simulator = Small();
  Plan plan = FourStages();
  ASSERT_THAT(plan.layers, ElementsAre(2, 2, 2, 2));
  plan.layers = {5, 1, 1, 1};
  const double lopsided_s = simulator.Simulate(plan).step_time_s;
  plan.layers = {4, 1, 1, 2};
  EXPECT_LT(simulator.Simulate(plan).step_time_s, lopsided_s);
}

TEST(Plan, EachRecomputedLayerCostsTimeAndSavesMemory) {
  const Simulator simulator = Small();
  Plan plan = FourStages();
  double time_s = 0.0;
  double bytes = 1e30;
  for (const int recomputed : {0, 1, 2}) {
    for (PlanStage& stage : plan.stages) {
      stage.recomputed_layers = recomputed;
    }
    const StepReport report = simulator.Simulate(plan);
    EXPECT_GT(report.step_time_s, time_s);
    EXPECT_LT(report.memory.activations_bytes, bytes);
    time_s = report.step_time_s;
    bytes = report.memory.activations_bytes;
  }
}

TEST(Plan, StagesMayHaveSizesOfTheirOwn) {
  const Simulator simulator = Small();
  Plan plan = UniformPlan(ParseParallelConfig("dp=4,pp=2,microbatches=4"), 8);
  plan.stages[0] = {.dp = 1, .tp = 4};
  const StepReport report = simulator.Simulate(plan);
  EXPECT_NEAR(
      report.time.Total(), report.step_time_s, 1e-9 * report.step_time_s);
  // The first stage's tensor parallelism is seen where it is critical, and all
  // eight GPUs are used.
  EXPECT_EQ(PoolGpus(plan, 0), 8);
}

TEST(Plan, AFasterGpuTypeForHalfTheStagesIsFasterThanNone) {
  Cluster fast = SmallCluster();
  fast.name = "fast";
  fast.gpu.half_flop_per_s *= 2;
  fast.gpu.memory_bandwidth_bytes_per_s *= 2;
  Workload workload = SmallWorkload();
  workload.model.vocab_size = 1000;  // no stage is busy with the head
  const Simulator simulator(
      workload, std::vector<Cluster>{SmallCluster(), fast}, {});
  Plan plan = FourStages();
  const double slow_s = simulator.Simulate(plan).step_time_s;
  plan.stages[2].pool = plan.stages[3].pool = 1;
  const double mixed_s = simulator.Simulate(plan).step_time_s;
  EXPECT_LT(mixed_s, slow_s);
  // Layers follow speed: the fast stages take more of them.
  plan.layers = {1, 1, 3, 3};
  EXPECT_LT(simulator.Simulate(plan).step_time_s, mixed_s);
}

std::string Error(const Plan& plan) {
  try {
    (void)Small().Simulate(plan);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "no error";
}

TEST(Plan, ErrorsNameTheStageTheValueAndTheRule) {
  EXPECT_EQ(Error(FourStages()), "no error");
  Plan plan = FourStages();
  plan.layers = {2, 2, 2, 1};
  EXPECT_THAT(
      Error(plan),
      AllOf(HasSubstr("2, 2, 2, 1"), HasSubstr("add up to the model's 8")));
  plan = FourStages();
  plan.stages[1].recomputed_layers = 3;
  EXPECT_THAT(Error(plan), HasSubstr("stage 1: 3 recomputed layers of 2"));
  plan = FourStages();
  plan.stages[2].tp = 3;
  EXPECT_THAT(Error(plan),
              HasSubstr("stage 2: tp must divide the number of attention heads "
                        "(heads = 16, tp = 3)"));
  plan = FourStages();
  plan.stages[3].pool = 1;
  EXPECT_THAT(Error(plan), HasSubstr("there is no GPU type 1"));
  plan = FourStages();
  plan.stages[0].dp = 4;
  EXPECT_THAT(Error(plan), HasSubstr("10 GPUs of 2x4, which has 8"));
  plan = FourStages();
  plan.stages.pop_back();
  EXPECT_THAT(Error(plan), HasSubstr("pp must be the number of stages, 3"));
  plan = FourStages();
  plan.shared.ep = 2;
  EXPECT_THAT(
      Error(plan),
      HasSubstr("stage 0: ep must divide the number of experts (ep = 2, "
                "experts = 0)"));
}

TEST(Plan, SequenceParallelismSplitsTheTokensOfStagesWithSeveralRanksOnly) {
  Plan plan = UniformPlan(ParseParallelConfig("tp=2,sp=2,pp=2"), 8);
  plan.stages[1].tp = 1;
  EXPECT_TRUE(SplitsTokens(plan, 0));
  EXPECT_FALSE(SplitsTokens(plan, 1));
  plan.shared.sp = 1;
  EXPECT_FALSE(SplitsTokens(plan, 0));
}

}  // namespace
}  // namespace trials
