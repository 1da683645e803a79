#include "jobs/forecast_text.h"

#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/jobs/job_fixture.h"

namespace jobs::forecast_text_test {

using testing::AllOf;
using testing::HasSubstr;

TEST(Launch, MegatronGetsItsFlagsForTheMachineAndTheConfiguration) {
  const std::string text =
      LaunchText(LlamaJob("megatron-lm"), {.dp = 4,
                                           .tp = 2,
                                           .pp = 2,
                                           .zero_stage = 1,
                                           .microbatches = 32,
                                           .grad_checkpoint = 1,
                                           .sp = 2});
  EXPECT_THAT(text, AllOf(HasSubstr("torchrun --nnodes=2 --nproc-per-node=8"),
                          HasSubstr("--tensor-model-parallel-size 2"),
                          HasSubstr("--pipeline-model-parallel-size 2"),
                          HasSubstr("--micro-batch-size 2"),
                          HasSubstr("--use-distributed-optimizer"),
                          HasSubstr("--sequence-parallel"),
                          HasSubstr("--recompute-granularity full")));
}

TEST(Launch, DeepSpeedGetsTheKeysOfItsFile) {
  const std::string text = LaunchText(
      LlamaJob("deepspeed"), {.dp = 16, .zero_stage = 3, .microbatches = 16});
  EXPECT_THAT(text, AllOf(HasSubstr("ds_config.json with these keys:"),
                          HasSubstr("\"gradient_accumulation_steps\": 16"),
                          HasSubstr("\"train_micro_batch_size_per_gpu\": 1"),
                          HasSubstr("\"stage\": 3")));
}

TEST(Launch, AFrameworkWithoutAnAdapterHasNoCommand) {
  EXPECT_EQ(LaunchText(LlamaJob("colossalai"), {.dp = 16}), "");
}

TEST(ForecastText, WithoutEnoughMemoryItNamesTheSmallestConfiguration) {
  Job job = LlamaJob("megatron-core", 1);
  job.cluster.gpu.memory_bytes = 8e9;
  const Forecaster planner(job, {});
  const Forecast plan = planner.MakeForecast();
  EXPECT_TRUE(plan.layouts.empty());
  EXPECT_THAT(ForecastText(planner, plan, 5),
              AllOf(HasSubstr("the smallest needs"), HasSubstr("GB")));
}

TEST(ForecastText, TextJsonAndCsvAgree) {
  const Forecaster planner(LlamaJob(), {});
  const Forecast plan = planner.MakeForecast();
  const common::Json json = ForecastJson(planner, plan, 3);
  EXPECT_EQ(json["layouts"].size(), 3U);
  const std::string text = ForecastText(planner, plan, 3);
  const std::string csv = ForecastCsv(planner, plan, 4);
  EXPECT_THAT(text, HasSubstr(json["layouts"][0]["config"]));
  EXPECT_THAT(csv, HasSubstr(json["layouts"][2]["layout"]));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 4);
}

}  // namespace jobs::forecast_text_test
