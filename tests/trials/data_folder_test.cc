#include "trials/data_folder.h"

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/error_of.h"
#include "tests/fakes/temporary_folder.h"

namespace trials::data_folder_test {

using fakes::ErrorOf;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Restores an environment variable at the end of a test.
class Variable {
 public:
  explicit Variable(const char* name) : name_(name) {
    if (const char* before = std::getenv(name)) {
      before_ = before;
    }
  }
  ~Variable() {
    ::unsetenv(name_);
    if (before_) {
      Set(*before_);
    }
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  void Set(const std::string& value) const {
    ::setenv(name_, value.c_str(), 1);
  }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

class DataFolderTest : public testing::Test {
 protected:
  std::filesystem::path Write(const std::string& name) const {
    fakes::WriteFile(folder_.path() / name, "x");
    return folder_.path() / name;
  }
  [[nodiscard]] std::string TableError(const std::string& name) const {
    return ErrorOf([&] { return ResolveTablePath(name, folder_.path()); });
  }

  fakes::TemporaryFolder folder_;
  Variable experiments_{kExperimentsVariable};
  Variable data_{kDataVariable};
};

TEST_F(DataFolderTest, IsThatOfTheVariableUnlessThatIsEmpty) {
  ::unsetenv(kExperimentsVariable);
  const std::filesystem::path built = ExperimentsFolder();
  EXPECT_TRUE(std::filesystem::is_directory(built / "clusters"));
  experiments_.Set("");
  EXPECT_EQ(ExperimentsFolder(), built);
  experiments_.Set(folder_.path());
  EXPECT_EQ(ExperimentsFolder(), folder_.path());
  experiments_.Set(folder_.path() / "none");
  EXPECT_THAT(ErrorOf(ExperimentsFolder),
              AllOf(HasSubstr("none: no such folder"),
                    HasSubstr("set OPPA_EXPERIMENTS")));
}

TEST_F(DataFolderTest, AFileIsFoundByItsNameOrByItsPath) {
  experiments_.Set(folder_.path());
  fakes::WriteFile(folder_.path() / "gpus" / "a100.toml", "");
  fakes::WriteFile(folder_.path() / "gpus" / "notes.txt", "");
  fakes::WriteFile(folder_.path() / "gpus" / "sub" / "b100.toml", "");
  EXPECT_EQ(FindDataFile("gpus", "a100"), folder_.path() / "gpus/a100.toml");
  EXPECT_EQ(FindDataFile("", "a100.toml", folder_.path() / "gpus"),
            folder_.path() / "gpus/a100.toml");
  EXPECT_THAT(ErrorOf([] { return FindDataFile("gpus", "a10.toml", "/none"); }),
              HasSubstr("/none/a10.toml: no such file"));
  EXPECT_THAT(
      ErrorOf([] { return FindDataFile("gpus", "a10"); }),
      AllOf(HasSubstr("'a10' is not in"), HasSubstr("did you mean 'a100'?"),
            testing::EndsWith("known: a100")));
  // A name is not a path.
  EXPECT_THAT(ErrorOf([] { return FindDataFile("gpus", "sub/b100"); }),
              HasSubstr("'sub/b100' is not in"));
}

TEST_F(DataFolderTest,
       DataFolderComesBeforeTheManifestsFolderAndThatBeforeTheProjects) {
  ::unsetenv(kDataVariable);
  experiments_.Set(folder_.path() / "project");
  const auto in_project = Write("project/measured/a.csv");
  EXPECT_EQ(ResolveTablePath("measured/a.csv", folder_.path()), in_project);
  const auto in_data = Write("data/measured/a.csv");
  const auto beside = Write("measured/a.csv");
  EXPECT_EQ(ResolveTablePath("measured/a.csv", folder_.path()), beside);
  data_.Set(folder_.path() / "data");
  EXPECT_EQ(ResolveTablePath("measured/a.csv", folder_.path()), in_data);
}

TEST_F(DataFolderTest, AbsolutePathIsTakenAsItIs) {
  const auto path = Write("elsewhere/a.csv");
  EXPECT_EQ(ResolveTablePath(path.string(), "/nowhere"), path);
  EXPECT_THAT(TableError("/nowhere/a.csv"), HasSubstr("/nowhere/a.csv"));
}

TEST_F(DataFolderTest, ErrorSaysHowToSetTheVariable) {
  ::unsetenv(kDataVariable);
  EXPECT_THAT(
      TableError("measured/a.csv"),
      AllOf(HasSubstr("measured/a.csv"), HasSubstr("OPPA_DATA is not set"),
            HasSubstr("export OPPA_DATA=")));
  data_.Set(folder_.path() / "missing");
  EXPECT_THAT(
      TableError("measured/a.csv"),
      AllOf(HasSubstr("which is no folder"), HasSubstr("export OPPA_DATA=")));
  data_.Set(folder_.path());
  EXPECT_THAT(TableError("measured/a.csv"),
              HasSubstr((folder_.path() / "measured/a.csv").string()));
}

}  // namespace trials::data_folder_test
