#include "common/toml_table.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "tests/fakes/error_of.h"
#include "tests/fakes/temporary_folder.h"

namespace common::toml_table_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

TomlTable Parse(const std::string& text) {
  return TomlTable::ParseString(text, "fig.toml");
}

std::string Error(const std::function<void()>& action) {
  return fakes::ErrorOf([&] { action(); });
}

TEST(TomlTable, ReadsScalarsAndGivesDefaults) {
  const TomlTable table = Parse("a = 'text'\nb = 3\nc = 2.5\nd = true\n");
  EXPECT_EQ(table.RequireString("a"), "text");
  EXPECT_EQ(table.RequireInt("b"), 3);
  EXPECT_EQ(table.RequireDouble("c"), 2.5);
  EXPECT_EQ(table.RequireDouble("b"), 3.0);  // whole numbers are numbers
  EXPECT_TRUE(table.GetBool("d", false));
  EXPECT_EQ(table.GetString("x", "y"), "y");
  EXPECT_EQ(table.GetInt("x", 7), 7);
  EXPECT_EQ(table.GetDouble("x", 0.5), 0.5);
  EXPECT_TRUE(table.GetBool("x", true));
  EXPECT_TRUE(table.Has("a"));
  EXPECT_FALSE(table.Has("x"));
}

TEST(TomlTable, AScalarIsAListOfOneAndAMissingKeyAnEmptyList) {
  const TomlTable table =
      Parse("a = ['x', 'y']\nb = 'x'\nc = [1, 2]\nd = [true, 0]\ne = [1, 0.5]");
  EXPECT_THAT(table.GetStrings("a"), ElementsAre("x", "y"));
  EXPECT_THAT(table.GetStrings("b"), ElementsAre("x"));
  EXPECT_THAT(table.GetInts("c"), ElementsAre(1, 2));
  EXPECT_THAT(table.GetInts("d"), ElementsAre(1, 0));
  EXPECT_THAT(table.GetDoubles("e"), ElementsAre(1.0, 0.5));
  EXPECT_THAT(table.GetInts("missing"), IsEmpty());
}

TEST(TomlTable, KeysComeInTheOrderOfTheFile) {
  EXPECT_THAT(Parse("z = 1\nb = 2\n\na = 3\n[m]\n[c]\n").Keys(),
              ElementsAre("z", "b", "a", "m", "c"));
}

TEST(TomlTable, WrongKindsAreErrorsWithPlaceAndValue) {
  const TomlTable table =
      Parse("a = 'text'\nb = 2.5\n[sub]\nc = 1\nd = [1,\n 'two']\n");
  EXPECT_THAT(Error([&] { (void)table.RequireInt("a"); }),
              AllOf(StartsWith("fig.toml:1:5: a must be an integer"),
                    HasSubstr("\"text\"")));
  EXPECT_THAT(Error([&] { (void)table.GetInt("b", 0); }),
              StartsWith("fig.toml:2:5: "));
  EXPECT_THAT(Error([&] { (void)table.GetTable("sub").GetBool("c", true); }),
              StartsWith("fig.toml:4:5: sub.c must be a boolean"));
  EXPECT_THAT(Error([&] { (void)table.GetTable("sub").GetInts("d"); }),
              StartsWith("fig.toml:6:2: sub.d must be an integer"));
  EXPECT_THAT(Error([&] { (void)table.GetTable("a"); }),
              StartsWith("fig.toml:1:5: a must be a table"));
}

TEST(TomlTable, AFlagIsNoNumber) {
  const TomlTable table = Parse("trials = true\n");
  EXPECT_THAT(Error([&] { (void)table.GetInt("trials", 1); }),
              HasSubstr("must be an integer, not a boolean (true)"));
}

TEST(TomlTable, MissingKeysAreErrorsAtTheirTable) {
  const TomlTable table = Parse("x = 1\n[sub]\ny = 1\n");
  EXPECT_THAT(Error([&] { (void)table.RequireString("a"); }),
              StartsWith("fig.toml:1:1: a is missing"));
  EXPECT_THAT(Error([&] { (void)table.GetTable("sub").RequireDouble("a"); }),
              StartsWith("fig.toml:2:1: sub.a is missing"));
  EXPECT_THAT(Error([&] { (void)table.RequireTable("other"); }),
              HasSubstr("a table [other] is needed here"));
}

TEST(TomlTable, AMissingSubTableIsEmptyAndStandsAtItsParent) {
  const TomlTable empty = Parse("x = 1\n").GetTable("sub").GetTable("deep");
  EXPECT_EQ(empty.GetInt("a", 5), 5);
  EXPECT_THAT(empty.Keys(), IsEmpty());
  EXPECT_THAT(Error([&] { (void)empty.RequireInt("a"); }),
              HasSubstr("sub.deep.a is missing"));
  EXPECT_NO_THROW(empty.RejectUnknownKeys());
  EXPECT_EQ(TomlTable().GetInt("a", 5), 5);
}

TEST(TomlTable, ArraysOfTablesAreRead) {
  const TomlTable table = Parse("[[m]]\na = 1\n[[m]]\na = 2\n[n]\na = 3\n");
  const auto tables = table.GetTables("m");
  ASSERT_EQ(tables.size(), 2U);
  EXPECT_EQ(tables[1].RequireInt("a"), 2);
  EXPECT_EQ(tables[1].Where(), "fig.toml:3:1");
  ASSERT_EQ(table.GetTables("n").size(), 1U);
  EXPECT_THAT(table.GetTables("missing"), IsEmpty());
}

TEST(TomlTable, KeysThatNobodyAskedForAreErrors) {
  const TomlTable table =
      Parse("repeats = 1\n[space]\ndp = 1\n[[m]]\nname = 'a'\nbetta = 1\n");
  (void)table.RequireInt("repeats");
  (void)table.GetTable("space").GetInts("dp");
  const auto methods = table.GetTables("m");
  (void)methods[0].RequireString("name");
  (void)methods[0].GetDouble("beta", 1.0);
  EXPECT_THAT(
      Error([&] { table.RejectUnknownKeys(); }),
      AllOf(StartsWith("fig.toml:6:1: unknown key 'm.betta'"),
            HasSubstr("did you mean 'beta'?"), HasSubstr("known: beta, name")));
  (void)methods[0].GetDouble("betta", 1.0);
  EXPECT_NO_THROW(table.RejectUnknownKeys());
}

TEST(TomlTable, ATableThatNobodyAskedForIsAnError) {
  const TomlTable table = Parse("[spcae]\ndp = 1\n");
  (void)table.GetTable("space");
  EXPECT_THAT(Error([&] { table.RejectUnknownKeys(); }),
              HasSubstr("unknown key 'spcae' (did you mean 'space'?)"));
}

TEST(TomlTable, ASubTableAskedForTwiceRemembersBothReaders) {
  const TomlTable table = Parse("[a]\nx = 1\ny = 2\n");
  (void)table.GetTable("a").RequireInt("x");
  (void)table.GetTable("a").RequireInt("y");
  EXPECT_NO_THROW(table.RejectUnknownKeys());
}

TEST(TomlTable, SyntaxErrorsHaveAPlace) {
  EXPECT_THAT(Error([] { (void)Parse("a = 1\nb = = 2\n"); }),
              StartsWith("fig.toml:2:"));
  EXPECT_THAT(Error([] { (void)Parse("a = 1\na = 2\n"); }),
              StartsWith("fig.toml:2:"));
}

TEST(TomlTable, FilesKnowTheirFolderAndMissingOnesAreErrors) {
  const fakes::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "folder.toml";
  std::ofstream(path) << "[a]\nb = 'x'\n";
  const TomlTable table = TomlTable::ParseFile(path);
  EXPECT_EQ(table.Folder() / "", path.parent_path() / "");
  EXPECT_EQ(table.GetTable("a").Folder(), table.Folder());
  EXPECT_EQ(table.GetTable("a").Where("b"), path.string() + ":2:5");
  EXPECT_THAT(Error([&] { table.GetTable("a").Fail("b", "no good"); }),
              StartsWith(path.string() + ":2:5: no good"));
  std::filesystem::remove(path);
  EXPECT_THAT(Error([&] { (void)TomlTable::ParseFile(path); }),
              HasSubstr("no such file"));
  EXPECT_THAT(Error([] { (void)TomlTable::ParseFile(""); }),
              testing::StrEq("'': no such file"));
}

TomlTable ParseWith(const std::vector<std::string>& settings) {
  const fakes::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "set.toml";
  std::ofstream(path) << "a = 1\n[b]\nx = 2\ny = 'text'\n";
  return TomlTable::ParseFile(path, settings);
}

TEST(TomlTable, ASettingReplacesOrAddsOneValueAndKeepsTheOthers) {
  const TomlTable table =
      ParseWith({"b.x=3", "b.z = [1, 2]", "c.d.e=true", "b.word=mixtral-8"});
  EXPECT_EQ(table.RequireInt("a"), 1);
  EXPECT_EQ(table.GetTable("b").RequireInt("x"), 3);
  EXPECT_EQ(table.GetTable("b").RequireString("y"), "text");
  EXPECT_THAT(table.GetTable("b").GetInts("z"), ElementsAre(1, 2));
  EXPECT_EQ(table.GetTable("b").RequireString("word"), "mixtral-8");
  EXPECT_TRUE(table.GetTable("c").GetTable("d").GetBool("e", false));
  EXPECT_THAT(table.Where("a"), testing::EndsWith("set.toml:1:5"));
  EXPECT_THAT(table.GetTable("b").Where("y"),
              testing::EndsWith("set.toml:4:5"));
}

TEST(TomlTable, AnErrorInASettingNamesTheSetting) {
  EXPECT_THAT(Error([] {
                (void)ParseWith({"b.x=-1"}).GetTable("b").RequirePositive("x");
              }),
              StartsWith("--set b.x=-1: b.x = -1: must be"));
  EXPECT_THAT(Error([] {
                const TomlTable table = ParseWith({"b.xx=1"});
                (void)table.GetTable("b").RequireInt("x");
                (void)table.GetTable("b").GetString("y", "");
                (void)table.RequireInt("a");
                table.RejectUnknownKeys();
              }),
              StartsWith("--set b.xx=1: unknown key 'b.xx'"));
  EXPECT_THAT(Error([] { (void)ParseWith({"b.x"}); }),
              StartsWith("--set b.x: must be KEY=VALUE"));
}

TEST(TomlTable, LeavesAreAllValuesBelowATableInFileOrder) {
  const TomlTable table =
      Parse("name = 'n'\nb.z = [5, 0.5]\nb.a-b.c = ['x', 'y']\n");
  const std::vector<TomlTable::Leaf> leaves = table.Leaves();
  ASSERT_EQ(leaves.size(), 3U);
  EXPECT_EQ(leaves[0].path, "name");
  EXPECT_EQ(leaves[1].path, "b.z");
  EXPECT_THAT(leaves[1].values, ElementsAre("5", "0.5"));
  EXPECT_EQ(leaves[2].path, "b.a-b.c");
  EXPECT_THAT(leaves[2].values, ElementsAre("\"x\"", "\"y\""));
  table.RejectUnknownKeys();
}

TEST(TomlTable, AKeyOfTooManyPartsIsAnError) {
  std::string key = "a";
  for (int i = 0; i < 50'000; ++i) {
    key += ".a";
  }
  for (const std::string& text : {key + " = 1", "[" + key + "]"}) {
    EXPECT_THAT([&] { (void)TomlTable::ParseString(text, "x"); },
                testing::ThrowsMessage<InputError>(
                    testing::HasSubstr("x: a key has more than 100 parts")));
  }
  std::string list = "a = [";
  for (int i = 0; i < 200; ++i) {
    list += "0.5, ";
  }
  EXPECT_TRUE(TomlTable::ParseString(list + "1.0]", "x").Has("a"));
}

}  // namespace common::toml_table_test
