// A table written to a temporary folder, for tests.

#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "tests/fakes/temporary_folder.h"

namespace trials {

// A fixture with a folder of its own for each test.
class TableFile : public ::testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path Write(
      const std::string& text, const std::string& name = "table.csv") const {
    std::filesystem::create_directories((folder_.path() / name).parent_path());
    std::ofstream(folder_.path() / name) << text;
    return folder_.path() / name;
  }

  fakes::TemporaryFolder folder_;
};

}  // namespace trials
