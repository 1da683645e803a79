#include "jobs/plan/comparison.h"

#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/json.h"
#include "jobs/plan/forecast_request.h"
#include "tests/fakes/error_of.h"

namespace jobs::comparison_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

ForecastRequest Comparing(const std::vector<std::string>& words) {
  ForecastRequest request;
  request.model =
      "layers=8,hidden=2048,heads=16,kv_heads=8,ffn=5632,vocab=8000";
  request.gpus = "4";
  request.machine.gpu = "h100";
  request.batch_size = 64;
  request.sequence_length = 2048;
  request.frameworks = {"megatron-lm"};
  request.compare = words;
  return request;
}

common::Json JsonOf(ForecastRequest request) {
  request.format = OutputFormat::kJson;
  return common::ParseJson(RunPlan(request).text, "plan");
}

TEST(Compare, PartsAddUpToTheStepAndTheMemoryOfEachSide) {
  for (const common::Json& side : JsonOf(Comparing({"dp=1,tp=4", "dp=4"}))) {
    double seconds = 0.0;
    for (const auto& part : side["seconds"]) {
      seconds += part.get<double>();
    }
    double bytes = 0.0;
    for (const auto& part : side["bytes"]) {
      bytes += part.get<double>();
    }
    EXPECT_NEAR(seconds, side["step_time_s"], 1e-9);
    EXPECT_NEAR(bytes, side["peak_memory_bytes"], 1.0);
  }
}

TEST(Compare, AWordIsALayoutAFrameworkAGpuOrACluster) {
  const common::Json of_layout = JsonOf(Comparing({"dp=1,tp=4"}));
  EXPECT_GT(of_layout[1]["seconds"]["tensor-parallel communication"], 0.0);
  ForecastRequest plan = Comparing({});
  EXPECT_EQ(of_layout[0]["config"], JsonOf(plan)[0]["layouts"][0]["config"]);
  EXPECT_THAT(JsonOf(Comparing({"torchtitan"}))[1]["name"].get<std::string>(),
              StartsWith("fsdp2 on H100"));
  EXPECT_THAT(JsonOf(Comparing({"b200"}))[1]["name"].get<std::string>(),
              StartsWith("megatron-core on B200"));
  EXPECT_THAT(JsonOf(Comparing({"a800-8"}))[1]["name"].get<std::string>(),
              StartsWith("megatron-core on A100-SXM4"));
}

TEST(Compare, OfSeveralFrameworksTheFastestIsASide) {
  ForecastRequest two = Comparing({"dp=4"});
  two.frameworks = {"nanotron", "megatron-lm"};
  ForecastRequest plan = two;
  plan.compare.clear();
  double fastest_s = 1e9;
  for (const common::Json& each : JsonOf(plan)) {
    fastest_s =
        std::min(fastest_s, each["layouts"][0]["step_time_s"].get<double>());
  }
  EXPECT_EQ(JsonOf(two)[0]["step_time_s"], fastest_s);
}

TEST(Compare, SaysWhichValuesHaveNoEffect) {
  EXPECT_THAT(RunPlan(Comparing({"dp=4,tp=1,model_chunks=2"})).text,
              HasSubstr("note: model_chunks=2 is ignored"));
}

TEST(Compare, ACalibrationIsOfOneFrameworkAndOneGpu) {
  for (const char* word : {"torchtitan", "b200"}) {
    ForecastRequest request = Comparing({word});
    request.calibrate = "steps.csv";
    EXPECT_THAT(fakes::ErrorOf([&] { return RunPlan(request).text; }),
                HasSubstr("one framework and one kind of GPU"));
  }
  ForecastRequest plan = Comparing({});
  plan.frameworks.clear();
  plan.calibrate = "steps.csv";
  EXPECT_THAT(fakes::ErrorOf([&] { return RunPlan(plan).text; }),
              HasSubstr("--calibrate needs one --framework"));
}

TEST(Compare, TheSentenceNamesTheLargestCauses) {
  const std::string text =
      RunPlan(Comparing({"dp=4,zero_stage=0", "tp=4"})).text;
  EXPECT_THAT(text, AllOf(HasSubstr("step, s"), HasSubstr("memory, GB"),
                          HasSubstr("times as many tokens per second and GPU"),
                          HasSubstr(" GB optimizer")));
}

TEST(Compare, RefusesWhatIsNoSide) {
  const auto error = [](const std::vector<std::string>& words) {
    return fakes::ErrorOf([&] { return RunPlan(Comparing(words)).text; });
  };
  EXPECT_THAT(error({"dp=3"}), StartsWith("--compare dp=3: not offered: "));
  EXPECT_THAT(error({"h1000"}), StartsWith("--compare h1000: no layout"));
  EXPECT_THAT(error({"dp=1", "dp=2", "dp=4"}), HasSubstr("one or two"));
}

}  // namespace jobs::comparison_test
