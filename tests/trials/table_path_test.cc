#include "trials/table_path.h"

#include <cstdlib>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "tests/trials/tables/table_file.h"

namespace trials::table_path_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Sets OPPA_DATA, or unsets it, for one test.
class TablePath : public TableFile {
 protected:
  void SetUp() override {
    TableFile::SetUp();
    if (const char* value = std::getenv(kDataVariable)) {
      before_ = value;
    }
    unsetenv(kDataVariable);
  }
  void TearDown() override {
    unsetenv(kDataVariable);
    if (before_) {
      SetData(*before_);
    }
    TableFile::TearDown();
  }

  static void SetData(const std::filesystem::path& folder) {
    setenv(kDataVariable, folder.c_str(), 1);
  }

  [[nodiscard]] std::string Error(const std::string& name) const {
    try {
      (void)ResolveTablePath(name, folder_.path());
    } catch (const common::InputError& e) {
      return e.what();
    }
    return "no error";
  }

  std::optional<std::string> before_;
};

TEST_F(TablePath, DataFolderComesBeforeTheManifestsFolder) {
  const auto in_data = Write("x", "data/measured/a.csv");
  const auto beside = Write("x", "measured/a.csv");
  EXPECT_EQ(ResolveTablePath("measured/a.csv", folder_.path()), beside);
  SetData(folder_.path() / "data");
  EXPECT_EQ(ResolveTablePath("measured/a.csv", folder_.path()), in_data);
}

TEST_F(TablePath, AbsolutePathIsTakenAsItIs) {
  const auto path = Write("x", "elsewhere/a.csv");
  EXPECT_EQ(ResolveTablePath(path.string(), "/nowhere"), path);
  EXPECT_THAT(Error("/nowhere/a.csv"), HasSubstr("/nowhere/a.csv"));
}

TEST_F(TablePath, ErrorSaysHowToSetTheVariable) {
  EXPECT_THAT(Error("measured/a.csv"), AllOf(HasSubstr("measured/a.csv"),
                                             HasSubstr("OPPA_DATA is not set"),
                                             HasSubstr("export OPPA_DATA=")));
  SetData(folder_.path() / "missing");
  EXPECT_THAT(Error("measured/a.csv"), AllOf(HasSubstr("which is no folder"),
                                             HasSubstr("export OPPA_DATA=")));
  SetData(folder_.path());
  EXPECT_THAT(Error("measured/a.csv"),
              HasSubstr((folder_.path() / "measured/a.csv").string()));
}

}  // namespace trials::table_path_test
