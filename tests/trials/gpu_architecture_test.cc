#include "trials/gpu_architecture.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/error_of.h"
#include "tests/fakes/temporary_folder.h"

namespace trials::gpu_architecture_test {

using ::testing::HasSubstr;

TEST(GpuArchitecture, AnUnknownNameListsTheKnownOnes) {
  const std::string error =
      fakes::ErrorOf([] { return FindGpuArchitecture("hoper"); });
  EXPECT_THAT(error, HasSubstr("did you mean 'hopper'?"));
  EXPECT_THAT(error, HasSubstr("ampere_ga100"));
}

// Every key with the largest value that it may have.
TEST(GpuArchitecture, NumbersHaveLimits) {
  const std::vector<std::pair<std::string, double>> limits = {
      {"tensor_fraction", 1},    {"single_fraction", 1},
      {"memory_fraction", 1},    {"fp8_fraction", 1},
      {"flash_fraction", 2},     {"flash_backward_fraction", 2},
      {"cudnn_fraction", 2},     {"cudnn_backward_fraction", 2},
      {"flash_tail", 10},        {"flash_backward_tail", 10},
      {"softmax_columns", 4096}, {"tile_overhead", 4096},
      {"epilogue_share", 1},     {"wave_overlap", 1},
      {"unaligned_fraction", 1}};
  const fakes::TemporaryFolder folder;
  const auto error = [&](const std::string& changed, double value) {
    std::string text;
    for (const auto& [key, most] : limits) {
      text += fmt::format("{} = {:.6f}\n", key, key == changed ? value : most);
    }
    fakes::WriteFile(folder.path() / "a.toml", text);
    return fakes::ErrorOf(
        [&] { return ReadGpuArchitecture(folder.path() / "a.toml"); });
  };
  EXPECT_EQ(error("", 0.0), "no error");
  for (const auto& [key, most] : limits) {
    EXPECT_EQ(error(key, 0.001), "no error") << key;
    EXPECT_THAT(error(key, 1.001 * most),
                HasSubstr(fmt::format("at most {}", most)))
        << key;
    EXPECT_THAT(error(key, 0.0), HasSubstr("above 0")) << key;
  }
}

TEST(GpuArchitecture, WhatAFileLeavesOutIsNotThere) {
  const fakes::TemporaryFolder folder;
  fakes::WriteFile(folder.path() / "a.toml",
                   "tensor_fraction = 0.9\nsingle_fraction = 0.9\n"
                   "memory_fraction = 0.9\nflash_fraction = 0.9\n"
                   "flash_backward_fraction = 0.9\ntile_overhead = 9\n"
                   "unaligned_fraction = 0.9\n");
  const GpuArchitecture architecture =
      ReadGpuArchitecture(folder.path() / "a.toml");
  EXPECT_EQ(architecture.fp8_fraction, 0.0);
  EXPECT_EQ(architecture.flash_tail, 0.0);
  EXPECT_EQ(architecture.flash_backward_tail, 0.0);
  EXPECT_EQ(architecture.softmax_columns, 0.0);
  EXPECT_EQ(architecture.epilogue_share, 0.0);
  EXPECT_EQ(architecture.wave_overlap, 0.0);
}

}  // namespace trials::gpu_architecture_test
