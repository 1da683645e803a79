#include "trials/simulator/framework.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"

namespace trials {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string ErrorOf(const std::string& text) {
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / "framework_test.toml";
  std::ofstream(path) << text;
  try {
    (void)ReadFramework(path);
  } catch (const common::InputError& e) {
    return e.what();
  }
  return "no error";
}

TEST(Framework, EveryShippedFileCanBeRead) {
  for (const char* name : {"aceso",
                           "colossalai",
                           "llm-foundry",
                           "megatron",
                           "megatron-core",
                           "megatron-deepspeed",
                           "nanotron"}) {
    EXPECT_NO_THROW((void)FindFramework(name)) << name;
  }
  EXPECT_FALSE(FindFramework("megatron").flash_attention);
  EXPECT_TRUE(FindFramework("nanotron").balance_stages);
  EXPECT_TRUE(FindFramework("llm-foundry").fsdp);
}

// The paper's experiments run on the defaults.
TEST(Framework, ColossalAiIsTheDefault) {
  const Framework read = FindFramework("colossalai");
  const Framework built;
  EXPECT_EQ(read.dispatch_s, built.dispatch_s);
  EXPECT_EQ(read.fragmentation, built.fragmentation);
  EXPECT_EQ(read.flash_attention, built.flash_attention);
  EXPECT_EQ(read.pipeline_outermost, built.pipeline_outermost);
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

}  // namespace
}  // namespace trials
