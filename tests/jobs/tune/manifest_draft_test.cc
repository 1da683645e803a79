#include "jobs/tune/manifest_draft.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/toml_table.h"
#include "tests/fakes/error_of.h"

namespace jobs::manifest_draft_test {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ManifestDraft, HasSectionsWithCommentsAndLines) {
  EXPECT_EQ(ToText({"What it is.\nAnd why.",
                    {{"first",
                      "",
                      {{"a", "1", "of something"},
                       {.key = "", .comment = "Note: one.\nTwo."},
                       {"b", "[2]"}}},
                     {"second", "What this is.", {{"c", "3", "or 4", false}}},
                     {"empty"}}}),
            "# What it is.\n# And why.\n"
            "\n[first]\na = 1  # of something\n# Note: one.\n# Two.\nb = [2]\n"
            "\n# What this is.\n[second]\n# c = 3  # or 4\n"
            "\n[empty]\n");
}

TEST(ManifestDraft, LeavesOutASectionWithoutAHeader) {
  EXPECT_EQ(ToText({"Top.", {{}, {"a", "", {{"b", "1"}}}, {}}}),
            "# Top.\n\n[a]\nb = 1\n");
}

// Every combination of a comment above, a comment behind and a line that is
// commented out.
TEST(ManifestDraft, ParsesToTheLinesThatHold) {
  for (int bits = 0; bits < 8; ++bits) {
    const bool holds = (bits & 1) == 0;
    const std::string behind = (bits & 2) == 0 ? "" : "b = 7 # [c]";
    const std::string above = (bits & 4) == 0 ? "" : "d = 8\ne = 9";
    const std::string text =
        ToText({above,
                {{"t", above, {{"a", TomlString("x # y"), behind, holds}}},
                 {"t.u", above, {{"v", "1", behind}}}}});
    const auto table = common::TomlTable::ParseString(text, "m.toml");
    EXPECT_THAT(table.Keys(), ElementsAre("t")) << text;
    EXPECT_EQ(table.GetTable("t").GetString("a", "none"),
              holds ? "x # y" : "none")
        << text;
    EXPECT_EQ(table.GetTable("t").GetTable("u").RequireInt("v"), 1) << text;
    for (const std::string& comment : {above.substr(0, 5), behind}) {
      EXPECT_THAT(text, HasSubstr(comment)) << "comments are kept";
    }
  }
}

// As in the name of a GPU that a driver prints.
TEST(ManifestDraft, CommentsHaveNoControlCharacters) {
  for (const char c : {'\x01', '\r', '\x1b', '\x7f', '\x0b'}) {
    const std::string name = std::string("A100") + c + "b = 2";
    const std::string text =
        ToText({name, {{"t", name, {{"a", "1", name}, {.comment = name}}}}});
    EXPECT_EQ(text.find(c), std::string::npos) << text;
    EXPECT_THAT(
        common::TomlTable::ParseString(text, "m.toml").GetTable("t").Keys(),
        ElementsAre("a"));
  }
}

TEST(ManifestDraft, StringsKeepEveryCharacter) {
  std::string every;
  for (char letter = 1; letter < 127; ++letter) {
    every += letter;
  }
  every += "\x7f\u00e9\u4e2d";
  const std::vector<std::string> texts = {every, "", "#", "\"", "\\", "'"};
  const auto table = common::TomlTable::ParseString(
      ToText({"", {{"t", "", {{"list", TomlList(texts)}}}}}), "m.toml");
  EXPECT_EQ(table.GetTable("t").GetStrings("list"), texts);
  EXPECT_EQ(TomlList({}), "[]");
  EXPECT_THAT(fakes::ErrorOf([] { return TomlString("\xe9"); }),
              HasSubstr("is not UTF-8 text"));
}

}  // namespace jobs::manifest_draft_test
