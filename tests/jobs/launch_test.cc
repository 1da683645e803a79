#include "jobs/launch.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "jobs/forecast.h"
#include "tests/jobs/job_fixture.h"

namespace jobs::launch_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

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

TEST(Launch, AFrameworkIsFoundByItsAdapterAndByItsOwnName) {
  EXPECT_EQ(FindFramework("torchtitan").name, "fsdp2");
  EXPECT_EQ(FindFramework("fsdp2").adapter->name(), "torchtitan");
  EXPECT_EQ(FindFramework("hf-trainer").name, "fsdp2-accelerate");
  EXPECT_TRUE(FindFramework("hf-trainer").framework.sharding.no_sync);
  EXPECT_FALSE(FindFramework("colossalai").adapter);
  EXPECT_EQ(LaunchText(LlamaJob("colossalai"), {.dp = 16}), "");
  try {
    (void)FindFramework("torchtitann");
    FAIL();
  } catch (const common::InputError& e) {
    EXPECT_THAT(e.what(), HasSubstr("torchtitan"));
  }
}

TEST(Launch, APlanHasOnlyWhatTheAdapterCanSet) {
  const Forecaster planner(LlamaJob("deepspeed"), {});
  for (const trials::ParallelConfig& config : planner.space().configs()) {
    EXPECT_EQ(config.dp, 16);
  }
}

}  // namespace jobs::launch_test
