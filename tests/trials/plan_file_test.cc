#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/error_of.h"
#include "tests/trials/simulator/problem.h"
#include "trials/plan.h"
#include "trials/simulator/simulator.h"

namespace trials::plan_file_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ErrorOf(const std::string& text) {
  return fakes::ErrorOf([&] { return ParsePlanText(text, "p.json"); });
}

TEST(PlanFile, EqualStagesAreTheConfiguration) {
  const Plan plan = ParsePlanText(
      R"({"shared": "microbatches=8,zero_stage=1",
          "stages": [{"layers": 4, "dp": 4}, {"layers": 4, "dp": 4}]})",
      "p.json");
  const Simulator simulator(SmallWorkload(), SmallCluster());
  EXPECT_EQ(simulator.Simulate(plan),
            simulator.Simulate(
                ParseParallelConfig("dp=4,pp=2,microbatches=8,zero_stage=1")));
}

TEST(PlanFile, StagesDifferInEveryKey) {
  const Plan plan = ParsePlanText(
      R"({"shared": "microbatches=8",
          "stages": [{"layers": [1, 2], "dp": 4, "recomputed_layers": 1},
                     {"layers": [3, 2], "dp": 2, "tp": 2, "gpu_type": 1}]})",
      "p.json");
  EXPECT_THAT(plan.layers, ElementsAre(1, 3, 2, 2));  // by virtual stage
  EXPECT_EQ(plan.shared.pp, 2);
  EXPECT_EQ(plan.shared.model_chunks, 2);
  EXPECT_EQ(plan.stages[0].recomputed_layers, 1);
  EXPECT_EQ(plan.stages[1].tp, 2);
  EXPECT_EQ(plan.stages[1].gpu_type, 1);
  EXPECT_EQ(ToString(plan),
            "microbatches=8 / layers=1+2 dp=4 tp=1 recomputed_layers=1 / "
            "layers=3+2 dp=2 tp=2 gpu_type=1");
}

TEST(PlanFile, ErrorsNameTheStageAndTheKey) {
  EXPECT_THAT(ErrorOf("[]"), HasSubstr("p.json: must be an object"));
  EXPECT_THAT(ErrorOf(R"({"stages": []})"), HasSubstr("'stages' must be"));
  EXPECT_THAT(ErrorOf(R"({"stages": [{"layers": 1}], "shard": ""})"),
              HasSubstr("'shard' is unknown (did you mean 'shared'?)"));
  EXPECT_THAT(ErrorOf(R"({"stages": [{"layers": 1}, {"dp": 2}]})"),
              HasSubstr("p.json: stage 2: 'layers' is missing"));
  EXPECT_THAT(ErrorOf(R"({"stages": [{"layers": 1, "tp": 0}]})"),
              HasSubstr("stage 1: 'tp' must be an integer from 1"));
  EXPECT_THAT(ErrorOf(R"({"stages": [{"layers": 1}, {"layers": [1, 1]}]})"),
              HasSubstr("as many numbers as in the first stage"));
  EXPECT_THAT(ErrorOf(R"({"shared": "dp=2", "stages": [{"layers": 1}]})"),
              HasSubstr("belong to the stages"));
  EXPECT_THAT(ErrorOf(R"({"shared": "nope=2", "stages": [{"layers": 1}]})"),
              HasSubstr("'shared' is wrong"));
}

TEST(PlanFile, AStageIsOneGpuOfTheFirstTypeUnlessItSaysOtherwise) {
  const Plan plan = ParsePlanText(
      R"({"stages": [{"layers": 0},
                     {"layers": [0], "dp": 1, "tp": 1, "recomputed_layers": 0,
                      "gpu_type": 0},
                     {"layers": 1000000}]})",
      "p.json");
  EXPECT_THAT(plan.layers, ElementsAre(0, 0, 1'000'000));
  for (const PlanStage& stage : plan.stages) {
    EXPECT_EQ(stage.dp, 1);
    EXPECT_EQ(stage.tp, 1);
    EXPECT_EQ(stage.recomputed_layers, 0);
    EXPECT_EQ(stage.gpu_type, 0);
  }
  EXPECT_EQ(ToString(plan), "2x layers=0 dp=1 tp=1 / layers=1000000 dp=1 tp=1");
  EXPECT_THAT(ErrorOf(R"({"stages": [{"layers": 1000001}]})"),
              HasSubstr("'layers' must be an integer from 0"));
  EXPECT_THAT(ErrorOf(R"({"stages": [{"layers": 1, "dp": 0}]})"),
              HasSubstr("'dp' must be an integer from 1"));
}

}  // namespace trials::plan_file_test
