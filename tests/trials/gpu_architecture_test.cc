#include "trials/gpu_architecture.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "tests/fakes/temporary_folder.h"

namespace trials {
namespace {

using ::testing::HasSubstr;

TEST(GpuArchitecture, EveryShippedFileHoldsShares) {
  for (const char* name : {"volta",
                           "ampere_ga100",
                           "ampere_ga102",
                           "ampere_ga102_geforce",
                           "hopper",
                           "blackwell",
                           "ada",
                           "ada_geforce",
                           "cdna3",
                           "generic"}) {
    const GpuArchitecture& architecture = FindGpuArchitecture(name);
    EXPECT_EQ(architecture.name, name);
    EXPECT_GE(architecture.tensor_fraction, 0.4) << name;
    EXPECT_LE(architecture.memory_fraction, 1.0) << name;
  }
}

TEST(GpuArchitecture, AnUnknownNameListsTheKnownOnes) {
  try {
    (void)FindGpuArchitecture("hoper");
    FAIL();
  } catch (const common::InputError& e) {
    EXPECT_THAT(e.what(), HasSubstr("did you mean 'hopper'?"));
    EXPECT_THAT(e.what(), HasSubstr("ampere_ga100"));
  }
}

TEST(GpuArchitecture, AShareAboveOneIsRefused) {
  const fakes::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "share.toml";
  std::ofstream(path) << "tensor_fraction = 1.5\n";
  try {
    (void)ReadGpuArchitecture(path);
    FAIL();
  } catch (const common::InputError& e) {
    EXPECT_THAT(e.what(), HasSubstr("at most 1"));
  }
}

}  // namespace
}  // namespace trials
