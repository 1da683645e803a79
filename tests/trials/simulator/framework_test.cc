#include "trials/simulator/framework.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <variant>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "tests/fakes/temporary_folder.h"
#include "trials/data_folder.h"

namespace trials::framework_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string ErrorOf(const std::string& text) {
  const fakes::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "framework_test.toml";
  std::ofstream(path) << text;
  try {
    (void)ReadFramework(path);
  } catch (const common::InputError& e) {
    return e.what();
  }
  return "no error";
}

TEST(Framework, EveryShippedFileCanBeRead) {
  for (const char* name :
       {"aceso", "colossalai", "deepspeed", "deepspeed-offload", "fsdp2",
        "fsdp2-accelerate", "fsdp2-zero-bubble", "llm-foundry", "megatron",
        "megatron-core", "megatron-deepspeed", "megatron-zero-bubble",
        "nanotron"}) {
    EXPECT_NO_THROW((void)FindFramework(name)) << name;
  }
  EXPECT_FALSE(FindFramework("megatron").kernels.flash_attention);
  EXPECT_TRUE(FindFramework("nanotron").pipeline.balance_stages);
  EXPECT_TRUE(FindFramework("llm-foundry").sharding.fsdp);
}

TEST(Framework, AccelerateAccumulatesGradientsWithoutSynchronization) {
  EXPECT_TRUE(FindFramework("fsdp2-accelerate").sharding.no_sync);
  EXPECT_FALSE(
      FindFramework("fsdp2").sharding.no_sync);  // torchtitan reduces each
}

// The paper's experiments run on the defaults.
TEST(Framework, ColossalAiIsTheDefault) {
  const Framework read = FindFramework("colossalai");
  const Framework built;
  EXPECT_TRUE(read == built);
}

// No constant lies between one with a key and the next one with a key.
TEST(Framework, EveryConstantHasAKey) {
  Framework framework;
  const auto address = [](const auto* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer);
  };
  std::uintptr_t end = address(&framework);
  for (const FrameworkField& field : FieldsOf(framework)) {
    std::visit(
        [&](const auto* value) {
          EXPECT_GE(address(value), end) << field.key;
          EXPECT_LT(address(value) - end, sizeof(double)) << field.key;
          end = address(value + 1);
        },
        field.value);
  }
  EXPECT_EQ(end, address(&framework + 1));
}

TEST(Framework, EveryShippedFileSaysWhatItWasComparedWith) {
  const auto notes = [](const char* name) {
    return ReadFrameworkNotes(FindDataFile("frameworks", name));
  };
  EXPECT_THAT(notes("nanotron").compared_with,
              testing::ElementsAre("ultrascale"));
  EXPECT_THAT(notes("fsdp2").compared_with,
              testing::ElementsAre("torchtitan2024"));
  EXPECT_THAT(notes("nanotron").rule_sets, testing::ElementsAre("nanotron"));
  for (const char* name :
       {"colossalai", "deepspeed", "deepspeed-offload", "fsdp2-zero-bubble"}) {
    EXPECT_TRUE(notes(name).compared_with.empty()) << name;
    EXPECT_FALSE(notes(name).rule_sets.empty()) << name;
  }
}

TEST(Framework, BadFilesAreNamedWithPlaceAndRule) {
  EXPECT_THAT(ErrorOf("dispatch_s = -1"),
              AllOf(HasSubstr("framework_test.toml:1:14"),
                    HasSubstr("must be 0 or more")));
  EXPECT_THAT(ErrorOf("shard_within_host = true"),
              HasSubstr("needs fsdp = true"));
  EXPECT_THAT(ErrorOf("dispatsh_s = 1"), HasSubstr("dispatch_s"));
  EXPECT_THROW((void)FindFramework("megatrom"), common::InputError);
}

TEST(Framework, StepsAreTheSameWhereOnlyStartsAndEndsDiffer) {
  const Framework a;
  Framework b;
  b.launch.launch_process_s += 1.0;
  b.launch.failure_s += 1.0;
  EXPECT_TRUE(HasSameSteps(a, b));
  b.dispatch.dispatch_s += 1e-6;
  EXPECT_FALSE(HasSameSteps(a, b));
}

TEST(Framework, AttentionHasASpeedAndGroupsAnInteger) {
  EXPECT_EQ(ErrorOf("attention_forward_speed = 0.5"), "no error");
  EXPECT_THAT(ErrorOf("attention_forward_speed = 0"),
              HasSubstr("attention_forward_speed"));
  EXPECT_THAT(ErrorOf("attention_backward_speed = 0"),
              HasSubstr("attention_backward_speed"));
  EXPECT_EQ(ErrorOf("zero_group_ranks = 0"), "no error");
  EXPECT_EQ(ErrorOf("zero_group_ranks = 1000000"), "no error");
  EXPECT_THAT(ErrorOf("zero_group_ranks = 1000001"),
              HasSubstr("zero_group_ranks"));
  EXPECT_THAT(ErrorOf("zero_group_ranks = -1"), HasSubstr("zero_group_ranks"));
}

}  // namespace trials::framework_test
