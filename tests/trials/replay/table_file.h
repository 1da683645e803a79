// A table written to a temporary folder, for tests.

#ifndef TESTS_TRIALS_REPLAY_TABLE_FILE_H_
#define TESTS_TRIALS_REPLAY_TABLE_FILE_H_

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

namespace trials {

// A fixture with a folder of its own for each test.
class TableFile : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(::testing::TempDir()) /
              (std::string(info->test_suite_name()) + "." + info->name());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::filesystem::path Write(
      const std::string& text, const std::string& name = "table.csv") const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }

  std::filesystem::path folder_;
};

}  // namespace trials

#endif  // TESTS_TRIALS_REPLAY_TABLE_FILE_H_
