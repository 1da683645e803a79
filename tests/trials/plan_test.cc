#include "trials/plan.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/json.h"
#include "tests/fakes/error_of.h"
#include "tests/trials/simulator/paper_problem.h"
#include "tests/trials/simulator/problem.h"
#include "trials/simulator/simulator.h"
#include "trials/wrappers/noisy_runner.h"
#include "trials/wrappers/time_limited_runner.h"

namespace trials::plan_test {

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

INSTANTIATE_TEST_SUITE_P(All, PlanOfPaperProblem,
                         testing::Values("bert-8gpu", "qwen-8gpu",
                                         "llama1b-16gpu", "llama7b-32gpu"),
                         [](const auto& problem) {
                           std::string name = problem.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

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

// Llama 3.1 405B: 126 layers, embedding and head on 16 stages of 8 chunks.
TEST(Plan, EmbeddingAndHeadAreStagesWhereLayersDoNotFill) {
  const std::vector<int> layers = DistributeLayers(126, 16 * 8);
  EXPECT_EQ(layers.front() + layers.back(), 0);
  EXPECT_EQ(std::count(layers.begin(), layers.end(), 1), 126);
  EXPECT_EQ(LayoutText(layers), "E|(t|)*126L");
  EXPECT_EQ(LayoutText(DistributeLayers(61, 8)), "Et*7|(t*7|)*1(t*8|)*5t*7L");
}

// Four stages on the eight GPUs of the small problem.
Plan FourStages() {
  return UniformPlan(ParseParallelConfig("dp=2,tp=1,pp=4,microbatches=8"), 8);
}

Simulator Small() { return {SmallWorkload(), SmallCluster()}; }

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

TEST(Plan, AFasterGpuTypeForHalfTheStagesIsFasterThanNone) {
  Cluster fast = SmallCluster();
  fast.name = "fast";
  fast.gpu.half_flop_per_s *= 2;
  fast.gpu.memory_bandwidth_bytes_per_s *= 2;
  Workload workload = SmallWorkload();
  workload.model.vocab_size = 1000;  // no stage is busy with the head
  const Simulator simulator(workload,
                            std::vector<Cluster>{SmallCluster(), fast}, {});
  Plan plan = FourStages();
  const double slow_s = simulator.Simulate(plan).step_time_s;
  plan.stages[2].gpu_type = plan.stages[3].gpu_type = 1;
  const double mixed_s = simulator.Simulate(plan).step_time_s;
  EXPECT_LT(mixed_s, slow_s);
  // Layers follow speed: the fast stages take more of them.
  plan.layers = {1, 1, 3, 3};
  EXPECT_LT(simulator.Simulate(plan).step_time_s, mixed_s);
}

std::string Error(const Plan& plan) {
  return fakes::ErrorOf([&] { return Small().Simulate(plan); });
}

TEST(Plan, ErrorsNameTheStageTheValueAndTheRule) {
  EXPECT_EQ(Error(FourStages()), "no error");
  Plan plan = FourStages();
  plan.layers = {2, 2, 2, 1};
  EXPECT_THAT(Error(plan), AllOf(HasSubstr("2, 2, 2, 1"),
                                 HasSubstr("add up to the model's 8")));
  plan.layers = {4, 2, 2};
  EXPECT_THAT(Error(plan),
              HasSubstr("each of the 4 x 1 virtual stages, not 3"));
  plan = FourStages();
  plan.stages[1].recomputed_layers = 3;
  EXPECT_THAT(Error(plan), HasSubstr("stage 1: 3 recomputed layers of 2"));
  plan = FourStages();
  plan.stages[2].tp = 3;
  EXPECT_THAT(Error(plan),
              HasSubstr("stage 2: tp must divide the number of attention heads "
                        "(heads = 16, tp = 3)"));
  plan = FourStages();
  plan.stages[3].gpu_type = 1;
  EXPECT_THAT(Error(plan), HasSubstr("there is no GPU type 1"));
  plan = FourStages();
  plan.stages[0].dp = 4;
  EXPECT_THAT(Error(plan),
              HasSubstr("10 GPUs of type 0, of which there are 8"));
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

// A random plan with all fields.
Plan RandomPlan(std::mt19937_64& engine) {
  const auto draw = [&engine](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(engine);
  };
  Plan plan;
  plan.shared = {.zero_stage = draw(0, 3),
                 .microbatches = draw(1, 64),
                 .grad_checkpoint = draw(0, 2),
                 .cp = draw(1, 2)};
  std::vector<std::vector<int>> layers;
  const int chunks = draw(1, 3);
  for (int s = draw(1, 6); s > 0; --s) {
    if (!plan.stages.empty() && draw(0, 1) == 1) {  // like the stage before it
      plan.stages.push_back(plan.stages.back());
      layers.push_back(layers.back());
      continue;
    }
    plan.stages.push_back(
        {draw(1, 8), draw(1, 8), draw(0, 1) * draw(0, 9), draw(0, 1)});
    layers.emplace_back();
    for (int c = 0; c < chunks; ++c) {
      layers.back().push_back(draw(0, 9));
    }
  }
  SetLayers(layers, plan);
  return plan;
}

Plan Read(const std::string& text) {
  Plan plan;
  FromText(text, plan);
  return plan;
}

// Of CSV and of Markdown.
TEST(PlanText, IsACellThatReadsBackAsTheSamePlan) {
  std::mt19937_64 engine(7);
  for (int i = 0; i < 300; ++i) {
    const Plan plan = RandomPlan(engine);
    const std::string text = ToString(plan);
    SCOPED_TRACE(text);
    EXPECT_EQ(text.find_first_of(",|\n\r\""), std::string::npos);
    EXPECT_EQ(Read(text), plan);
  }
}

TEST(PlanText, HasAlikeStagesOnceAndNoDefaults) {
  Plan plan = FourStages();
  plan.stages[3] = {.dp = 1, .tp = 2, .recomputed_layers = 1, .gpu_type = 1};
  EXPECT_EQ(ToString(plan),
            "microbatches=8 / 3x layers=2 dp=2 tp=1 / "
            "layers=2 dp=1 tp=2 recomputed_layers=1 gpu_type=1");
}

TEST(PlanText, ErrorsNameThePart) {
  const auto error = [](const std::string& text) {
    return fakes::ErrorOf([&] { return Read(text); });
  };
  EXPECT_THAT(error(""), HasSubstr("empty"));
  EXPECT_THAT(error("microbatches=4"), HasSubstr("must have a stage"));
  EXPECT_THAT(error("dp=2 / layers=4"), HasSubstr("'dp=2'"));
  EXPECT_THAT(error("layers=4 / dp=2"), HasSubstr("must have layers"));
  EXPECT_THAT(error("layers=4 pp=2"), HasSubstr("'pp=2'"));
  EXPECT_THAT(error("layers=4 dp=0"), HasSubstr("'0': must be an integer"));
  EXPECT_THAT(error("layers=4+x"), HasSubstr("'x': must be an integer"));
  EXPECT_THAT(error("99999x layers=4"), HasSubstr("from 1 to 10000"));
  EXPECT_THAT(error("layers=4 / layers=2+2"), HasSubstr("model chunks"));
  EXPECT_THAT(error("nope=1 / layers=4"), HasSubstr("nope"));
}

TEST(PlanText, NumbersHaveALeastAndAGreatestValue) {
  const Plan least = Read("layers=0 dp=1 tp=1 recomputed_layers=0 gpu_type=0");
  EXPECT_EQ(least, Read("layers=0"));
  const Plan most = Read(
      "layers=1000000 dp=1000000 tp=1000000 recomputed_layers=1000000 "
      "gpu_type=1000000");
  EXPECT_THAT(most.stages,
              ElementsAre(PlanStage{1000000, 1000000, 1000000, 1000000}));
  EXPECT_EQ(Read("10000x layers=1").stages.size(), 10000U);
  Plan cut;  // before the second digit
  FromText(std::string_view("layers=12").substr(0, 8), cut);
  EXPECT_THAT(cut.layers, ElementsAre(1));
  for (const char* setting :
       {"layers=-1", "layers=1000001", "layers=1+1000001",
        "layers=", "layers=1 dp=0", "layers=1 dp=1000001", "layers=1 tp=0",
        "layers=1 tp=1000001", "layers=1 recomputed_layers=-1",
        "layers=1 recomputed_layers=1000001", "layers=1 gpu_type=-1",
        "layers=1 gpu_type=1000001", "layers=1 gpu_type=1x", "0x layers=1",
        "10001x layers=1", "x layers=1", "zero_stage=1 / cp=2 / layers=4",
        "layers=4 / zero_stage=1", "layers=4 / / layers=4"}) {
    EXPECT_THROW((void)Read(setting), std::invalid_argument) << setting;
  }
}

TEST(PlanRequest, SurvivesTheWayToAnotherProcess) {
  Plan plan = FourStages();
  plan.shared.dp = 1;
  for (const Candidate& candidate :
       {Candidate(plan), Candidate(ParallelConfig{.dp = 2, .tp = 4})}) {
    const std::string text =
        common::ToText(common::ToJson(TrialRequest{.candidate = candidate}));
    EXPECT_EQ(common::ParseJsonAs<TrialRequest>(text, "test").candidate,
              candidate);
  }
}

TEST(PlanRequest, WrappersPassThePlanOn) {
  Plan plan = FourStages();
  plan.layers = {5, 1, 1, 1};
  const double exact = *Small().ExactThroughput(plan);
  auto noisy = std::make_unique<NoisyRunner>(
      std::make_unique<Simulator>(Small()),
      Scaled(NoiseOptions{.first_step_share = 0.0, .first_step_s = 0.0}, 0.0));
  TimeLimitedRunner runner(std::move(noisy));
  EXPECT_EQ(runner.ExactThroughput(plan), exact);
  const Measurement measurement =
      runner.Run({.candidate = plan, .max_steps = 3});
  EXPECT_DOUBLE_EQ(measurement.step_times_s.back(), 1.0 / exact);
}

TEST(Plan, TypesAreFilledOneAfterTheOther) {
  const auto types = [](const std::string& text, std::vector<int> gpus) {
    Plan plan = Read(text);
    FillTypes(gpus, plan);
    std::vector<int> gpu_types;
    for (const PlanStage& stage : plan.stages) {
      gpu_types.push_back(stage.gpu_type);
    }
    return gpu_types;
  };
  EXPECT_THAT(types("4x layers=1 dp=2", {8}), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(types("4x layers=1 dp=2", {4, 4}), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(types("4x layers=1 dp=2", {2, 4, 2}), ElementsAre(0, 1, 1, 2));
  EXPECT_THAT(types("layers=1 dp=4 / 2x layers=1 tp=2", {4, 4}),
              ElementsAre(0, 1, 1));
  EXPECT_THAT(types("layers=1", {4, 4}), ElementsAre(0));
  EXPECT_THROW((void)types("3x layers=1 dp=2", {3, 3}), InvalidPlan);
  EXPECT_THROW((void)types("3x layers=1 dp=2", {2, 2}), InvalidPlan);
}

}  // namespace trials::plan_test
