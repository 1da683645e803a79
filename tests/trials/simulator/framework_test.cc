#include "trials/simulator/framework.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "common/toml_table.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/temporary_folder.h"
#include "trials/data_folder.h"

namespace trials::framework_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string ErrorOf(const std::string& text) {
  const fakes::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "framework_test.toml";
  std::ofstream(path) << text;
  return fakes::ErrorOf([&] { return ReadFramework(path); });
}

TEST(Framework, EveryShippedFileCanBeRead) {
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator(
           ExperimentsFolder() / "frameworks")) {
    EXPECT_NO_THROW((void)ReadFramework(file.path())) << file.path();
    ++files;
  }
  EXPECT_GT(files, 10);
  const Framework nanotron = FindFramework("nanotron");
  EXPECT_THAT(nanotron.rule_sets, testing::ElementsAre("nanotron"));
  EXPECT_THAT(nanotron.compared_with, testing::ElementsAre("ultrascale"));
}

TEST(Framework, AFileThatChangesAnotherHasTheRestOfIt) {
  const fakes::TemporaryFolder folder;
  const auto write = [&](const char* name, const std::string& text) {
    fakes::WriteFile(folder.path() / name, text);
    return folder.path() / name;
  };
  (void)write("base.toml",
              "rules = ['megatron']\ncompared_with = ['t']\nkind = 'tuned'\n"
              "release = '1'\ngemm_speed = 0.8\nfragmentation = 0.3\n");
  const auto file = write("base@2.toml",
                          "like = 'base.toml'\nrelease = '2'\n"
                          "compared_with = []\ngemm_speed = 0.9\n");
  const Framework read = ReadFramework(file);
  EXPECT_EQ(read.kernels.gemm_speed, 0.9);
  EXPECT_EQ(read.allocator.fragmentation, 0.3);
  EXPECT_EQ(read.kind, "tuned");
  EXPECT_EQ(read.release, "2");
  EXPECT_THAT(read.rule_sets, testing::ElementsAre("megatron"));
  EXPECT_THAT(read.compared_with, testing::IsEmpty());
  EXPECT_THAT(FrameworkFiles(file),
              testing::ElementsAre(file, folder.path() / "base.toml"));
}

TEST(Framework, ReleasesBelongToTheNameBeforeTheAtSign) {
  EXPECT_EQ(WithoutRelease("nemo@2024-03"), "nemo");
  EXPECT_THAT(OtherReleases("nemo"), testing::Contains("nemo@2024-03"));
  EXPECT_THAT(OtherReleases("nemo@2024-03"), testing::Contains("nemo"));
  EXPECT_THAT(OtherReleases("megatron"), testing::IsEmpty());
}

// The paper's experiments run on the defaults.
TEST(Framework, ColossalAiIsTheDefault) {
  const Framework read = FindFramework("colossalai");
  Framework built;
  built.allocator.nccl_group_bytes = 0.06e9;  // two channels: PCIe
  EXPECT_TRUE(HasSameSteps(read, built));
}

// No constant lies between one with a key and the next one with a key.
TEST(Framework, EveryConstantHasAKey) {
  Framework framework;
  const auto address = [](const auto* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer);
  };
  std::uintptr_t end = address(&framework);
  VisitFields(framework, [&](const char* key, const auto& value, auto...) {
    EXPECT_GE(address(&value), end) << key;
    EXPECT_LT(address(&value) - end, sizeof(double)) << key;
    end = address(&value + 1);
  });
  EXPECT_EQ(end, address(&framework.kind));
}

// Constants that fewer than two frameworks set. A name may leave this list. A
// constant that would enter it becomes a value of another one instead.
const std::set<std::string> kOfOneFramework = {"allocator_pressure",
                                               "allocator_remap_s",
                                               "allocator_retry_s",
                                               "balance_stages",
                                               "bf16_sums",
                                               "broadcast_parameters",
                                               "expert_overlap",
                                               "failure_s",
                                               "flat_gradients",
                                               "fp8_gathers",
                                               "full_pipeline",
                                               "gather_buffer_elements",
                                               "group_init_per_rank_s",
                                               "host_optimizer_elements_per_s",
                                               "launch_s",
                                               "loss_overhead_s",
                                               "message_host_s",
                                               "nccl_channel_bytes",
                                               "network_contention",
                                               "no_sync",
                                               "optimizer_state_bytes",
                                               "overlap_slowdown",
                                               "parameter_bytes",
                                               "pending_messages",
                                               "pending_messages_unpiped",
                                               "placeholder_gradients",
                                               "recompute_activation",
                                               "recompute_core",
                                               "recompute_latent",
                                               "recompute_norms",
                                               "reduce_buffer_elements",
                                               "repeat_kv",
                                               "setup_factor",
                                               "shard_within_host",
                                               "token_once_per_host",
                                               "tp_overlap",
                                               "zero_bucket_bytes",
                                               "zero_group_ranks"};

TEST(Framework, ANewConstantIsSetByTwoFrameworks) {
  std::map<std::string, int> files;
  for (const auto& file : std::filesystem::directory_iterator(
           ExperimentsFolder() / "frameworks")) {
    if (file.path().stem() != "colossalai") {  // it repeats the defaults
      for (const std::string& key :
           common::TomlTable::ParseFile(file.path()).Keys()) {
        ++files[key];
      }
    }
  }
  Framework framework;
  VisitFields(framework, [&](const char* key, const auto&, auto...) {
    EXPECT_EQ(files[key] < 2, kOfOneFramework.contains(key))
        << key << " is set by " << files[key];
    files.erase(key);
  });
  for (const auto& [key, count] : files) {
    EXPECT_FALSE(kOfOneFramework.contains(key)) << key << " is no constant";
  }
}

TEST(Framework, BadFilesAreNamedWithPlaceAndRule) {
  EXPECT_THAT(ErrorOf("kind = \"tunde\""),
              testing::HasSubstr("kind of code 'tunde'"));
  EXPECT_THAT(ErrorOf("expert_imbalance = 0.9"),
              HasSubstr("the load of the busiest rank over the mean"));
  EXPECT_THAT(ErrorOf("dispatch_s = -1"),
              AllOf(HasSubstr("framework_test.toml:1:14"),
                    HasSubstr("must be 0 or more")));
  EXPECT_THAT(ErrorOf("shard_within_host = true"),
              HasSubstr("needs fsdp = true"));
  EXPECT_THAT(ErrorOf("dispatsh_s = 1"), HasSubstr("dispatch_s"));
  for (const char* text :
       {"attention_forward_speed = 0", "attention_backward_speed = 0",
        "launch_s = 0", "host_optimizer_elements_per_s = 0",
        "weights_bytes_per_s = 0", "zero_group_ranks = 1000001",
        "zero_group_ranks = -1"}) {
    EXPECT_NE(ErrorOf(text), "no error") << text;
  }
  for (const char* text : {"attention_forward_speed = 0.5", "dispatch_s = 0",
                           "zero_group_ranks = 1000000"}) {
    EXPECT_EQ(ErrorOf(text), "no error");
  }
  EXPECT_THROW((void)FindFramework("megatrom"), common::InputError);
}

TEST(Framework, StepsAreTheSameWhereOnlyStartsAndEndsDiffer) {
  const Framework a;
  Framework b;
  b.launch.launch_process_s += 1.0;
  b.launch.failure_s += 1.0;
  b.kind = "tuned";  // of its errors, not of its steps
  EXPECT_TRUE(HasSameSteps(a, b));
  b.dispatch.dispatch_s += 1e-6;
  EXPECT_FALSE(HasSameSteps(a, b));
}

}  // namespace trials::framework_test
