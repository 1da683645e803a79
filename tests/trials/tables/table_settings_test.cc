#include "trials/tables/table_settings.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "common/toml_table.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/paths.h"
#include "tests/fakes/temporary_folder.h"

namespace trials::table_settings_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TableSettings Read(const std::string& text) {
  const fakes::TemporaryFolder folder;
  fakes::WriteFile(folder.path() / "vtrain.toml", text);
  return ReadTableSettings(folder.path() / "vtrain.toml");
}

TEST(TableSettings, AreNamedAfterTheirFileUnlessItHasATitleAndASource) {
  const TableSettings plain = Read("kind = 'measured'\n");
  EXPECT_EQ(plain.name, "vtrain");
  EXPECT_EQ(plain.title, "vtrain");
  EXPECT_EQ(plain.source, "vtrain");
  EXPECT_EQ(plain.kind, "measured");
  EXPECT_EQ(plain.table, "");
  EXPECT_FALSE(plain.fitted.has_value());
  const TableSettings named = Read(
      "kind = 'measured'\ntitle = 'vTrain'\nsource = 'paper'\n"
      "fitted = ['1b']\n[facts]\ncluster = 'c'\n");
  EXPECT_EQ(named.name, "vtrain");
  EXPECT_EQ(named.title, "vTrain");
  EXPECT_EQ(named.source, "paper");
  EXPECT_THAT(named.fitted.value(), ElementsAre("1b"));
  EXPECT_EQ(named.facts.RequireText("cluster"), "c");
}

TEST(TableSettings, HaveTheLabelOfTheirSourceAndRowsOfDocuments) {
  EXPECT_EQ(Read("kind = 'measured'\nsource = 'paper'\n").label, "paper");
  const TableSettings labelled = Read(
      "kind = 'measured'\nlabel = 'A paper'\n"
      "[[document]]\nlabel = 'A100'\nrows = 'scope=all'\n");
  EXPECT_EQ(labelled.label, "A paper");
  ASSERT_EQ(labelled.documents.size(), 1U);
  EXPECT_EQ(labelled.documents[0].RequireString("rows"), "scope=all");
  EXPECT_THROW((void)Read("kind = 'measured'\n[[document]]\nlabel = 'A100'\n"),
               common::InputError);
}

TEST(TableSettings, WithAnUnknownKeyOrWithoutAKindAreAnError) {
  EXPECT_THROW((void)Read("title = 't'\n"), common::InputError);
  EXPECT_THROW((void)Read("kind = 'measured'\nkin = 1\n"), common::InputError);
  EXPECT_THROW((void)Read("kind = 'measured'\n[facts]\nlayers = [1]\n"),
               common::InputError);
}

TEST(TableSettings, AllOfTheProjectAreFoundByName) {
  const std::vector<TableSettings> all = AllTableSettings();
  ASSERT_GE(all.size(), 2U);
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(
           fakes::SourceFolder() / "experiments" / "validation")) {
    files += entry.path().extension() == ".toml" ? 1 : 0;
  }
  EXPECT_EQ(all.size(), files);
  EXPECT_TRUE(std::is_sorted(
      all.begin(), all.end(),
      [](const auto& a, const auto& b) { return a.name < b.name; }));
  for (const TableSettings& settings : all) {
    EXPECT_EQ(FindTableSettings(settings.name).file, settings.file);
    // Other people's simulators do not validate this one.
    EXPECT_FALSE(settings.table.starts_with("worlds/"));
  }
  EXPECT_THAT(fakes::ErrorOf([&] { return FindTableSettings("no-table"); }),
              AllOf(HasSubstr("'no-table' is not in "),
                    HasSubstr(all.front().name), HasSubstr(all.back().name)));
}

TEST(TableSettings, DescribeATableByItsStemOrItsScenario) {
  TableSettings settings;
  settings.name = "vtrain";
  EXPECT_TRUE(Describes(settings, "my-vtrain-2", ""));
  EXPECT_TRUE(Describes(settings, "other", "vtrain-1b"));
  EXPECT_FALSE(Describes(settings, "other", "vtrain"));
  EXPECT_FALSE(Describes(settings, "other", "a-vtrain-1b"));
  EXPECT_FALSE(Describes(settings, "vtrai", "none"));
}

}  // namespace trials::table_settings_test
