#include "trials/data_folder.h"

#include <cstdlib>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "tests/fakes/temporary_folder.h"

namespace trials::data_folder_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

class DataFolderTest : public testing::Test {
 protected:
  DataFolderTest() {
    if (const char* before = std::getenv(kExperimentsVariable)) {
      before_ = before;
    }
  }
  ~DataFolderTest() override { Set(before_); }

  static void Set(const std::string& folder) {
    if (folder.empty()) {
      ::unsetenv(kExperimentsVariable);
    } else {
      ::setenv(kExperimentsVariable, folder.c_str(), 1);
    }
  }

  fakes::TemporaryFolder folder_;
  std::string before_;
};

template <typename Find>
std::string Error(const Find& find) {
  try {
    (void)find();
  } catch (const common::InputError& e) {
    return e.what();
  }
  return "no error";
}

TEST_F(DataFolderTest, IsThatOfTheVariableUnlessThatIsEmpty) {
  Set("");
  const std::filesystem::path built = ExperimentsFolder();
  EXPECT_TRUE(std::filesystem::is_directory(built / "clusters"));
  ::setenv(kExperimentsVariable, "", 1);
  EXPECT_EQ(ExperimentsFolder(), built);
  Set(folder_.path().string());
  EXPECT_EQ(ExperimentsFolder(), folder_.path());
  Set((folder_.path() / "none").string());
  EXPECT_THAT(Error(ExperimentsFolder),
              AllOf(HasSubstr("none: no such folder"),
                    HasSubstr("set OPPA_EXPERIMENTS")));
}

TEST_F(DataFolderTest, AFileIsFoundByItsNameOrByItsPath) {
  Set(folder_.path().string());
  fakes::WriteFile(folder_.path() / "gpus" / "a100.toml", "");
  fakes::WriteFile(folder_.path() / "gpus" / "notes.txt", "");
  fakes::WriteFile(folder_.path() / "gpus" / "sub" / "b100.toml", "");
  EXPECT_EQ(FindDataFile("gpus", "a100"), folder_.path() / "gpus/a100.toml");
  EXPECT_EQ(FindDataFile("", "a100.toml", folder_.path() / "gpus"),
            folder_.path() / "gpus/a100.toml");
  EXPECT_THAT(Error([] { return FindDataFile("gpus", "a10.toml", "/none"); }),
              HasSubstr("/none/a10.toml: no such file"));
  EXPECT_THAT(
      Error([] { return FindDataFile("gpus", "a10"); }),
      AllOf(HasSubstr("'a10' is not in"), HasSubstr("did you mean 'a100'?"),
            testing::EndsWith("known: a100")));
  // A name is not a path.
  EXPECT_THAT(Error([] { return FindDataFile("gpus", "sub/b100"); }),
              HasSubstr("'sub/b100' is not in"));
}

}  // namespace trials::data_folder_test
