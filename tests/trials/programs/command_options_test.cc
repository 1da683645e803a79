#include "trials/programs/command_options.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "common/toml_table.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/temporary_folder.h"

namespace trials::command_options_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

CommandOptions Read(const std::string& text) {
  return ReadTrialOptions(common::TomlTable::ParseString(text, "m.toml"));
}

std::string ErrorOf(const std::string& text) {
  return fakes::ErrorOf([&] { return Read(text); });
}

TEST(CommandOptions, TheLogHasOneByteToAGibibyte) {
  EXPECT_EQ(Read("log_bytes = 1").log_bytes, 1);
  EXPECT_EQ(Read("log_bytes = 1073741824").log_bytes, 1073741824);
  for (const char* bytes : {"0", "-1", "1073741825"}) {
    EXPECT_THAT(ErrorOf(std::string("log_bytes = ") + bytes),
                HasSubstr("must be in [1, 1073741824]"));
  }
}

TEST(CommandOptions, VariablesHaveANameAndAValue) {
  EXPECT_THAT(Read("environment = ['A=b', 'C=', 'D=e=f']").environment,
              ElementsAre("A=b", "C=", "D=e=f"));
  for (const char* variable : {"=b", "AB", ""}) {
    EXPECT_THAT(ErrorOf(std::string("environment = ['") + variable + "']"),
                HasSubstr("write NAME=value"))
        << variable;
  }
}

TEST(CommandOptions, TimesArePositiveAndHaveDefaults) {
  const CommandOptions defaults = Read("");
  EXPECT_EQ(defaults.timeout_s, 3600.0);
  EXPECT_EQ(defaults.silence_s, 600.0);
  EXPECT_EQ(defaults.patience_s, 10.0);
  EXPECT_EQ(defaults.log_bytes, 1048576);
  EXPECT_EQ(Read("timeout_s = 0.5").timeout_s, 0.5);
  for (const char* key : {"timeout_s", "silence_s", "patience_s"}) {
    EXPECT_THAT(ErrorOf(std::string(key) + " = 0"), HasSubstr(key));
  }
}

TEST(CommandOptions, AProgramStartsInAFolderRelativeToTheManifest) {
  const fakes::TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "job");
  fakes::WriteFile(folder.path() / "m.toml", "folder = 'job'\n");
  EXPECT_EQ(
      ReadTrialOptions(common::TomlTable::ParseFile(folder.path() / "m.toml"))
          .folder,
      folder.path() / "job");
  fakes::WriteFile(folder.path() / "m.toml", "folder = 'none'\n");
  EXPECT_THROW((void)ReadTrialOptions(
                   common::TomlTable::ParseFile(folder.path() / "m.toml")),
               common::InputError);
}

TEST(CommandOptions, AProgramHasAName) {
  for (const char* program : {"", "program = []", "program = ['', 'x']"}) {
    EXPECT_THROW((void)ReadCommandOptions(
                     common::TomlTable::ParseString(program, "m.toml")),
                 common::InputError)
        << program;
  }
  EXPECT_THAT(ReadCommandOptions(
                  common::TomlTable::ParseString("program = ['x']", "m.toml"))
                  .program,
              ElementsAre("x"));
}

}  // namespace trials::command_options_test
