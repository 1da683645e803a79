#include "methods/options.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "common/toml_table.h"

namespace methods::options_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

enum class Fruit { kApple, kPear, kPlum };

void Read(const std::string& text, const std::vector<Option>& options) {
  const auto table = common::TomlTable::ParseString(text, "m.toml");
  ReadOptions(table, {}, options);
}

TEST(ReadOptions, AChoiceIsMadeByItsName) {
  Fruit fruit = Fruit::kPear;
  const auto read = [&](const std::string& text) {
    Read(text, {{"fruit",
                 ChoiceOf(fruit, {{"apple", Fruit::kApple},
                                  {"pear", Fruit::kPear},
                                  {"plum", Fruit::kPlum}}),
                 "", ""}});
    return fruit;
  };
  EXPECT_EQ(read(""), Fruit::kPear);
  EXPECT_EQ(read("fruit = \"plum\""), Fruit::kPlum);
  EXPECT_EQ(read("fruit = \"apple\""), Fruit::kApple);
  EXPECT_THAT([&] { (void)read("fruit = \"paer\""); },
              ThrowsMessage<common::InputError>(
                  AllOf(HasSubstr("invalid value 'paer' for fruit"),
                        HasSubstr("did you mean 'pear'"))));
}

TEST(ReadOptions, AGivenValueIsCheckedAgainstTheProblem) {
  int trials = 1;
  const std::vector<Option> options = {
      {"trials", Integer{&trials, 0}, "", "",
       [&](const Problem& problem) -> std::string {
         return trials > problem.machine.gpus() ? "too many" : "";
       }}};
  trials = 5;  // a default is not checked
  Read("", options);
  EXPECT_THAT([&] { Read("trials = 7", options); },
              ThrowsMessage<common::InputError>(HasSubstr("too many")));
}

TEST(Options, FilesAreThePathsThatAreGiven) {
  std::string none;
  std::string profile = "profile.csv";
  std::string text = "name";
  EXPECT_THAT(FilesOf({{"none", CsvFile{&none}},
                       {"text", Text{&text, ""}},
                       {"profile", CsvFile{&profile}}}),
              testing::ElementsAre("profile.csv"));
}

TEST(Options, ANumberIsWithinItsBounds) {
  double share = 0.5;
  const std::vector<Option> options = {{"share", Number{&share, 0.25, 2.0}}};
  for (const double valid : {0.25, 1.0, 2.0}) {
    Read(fmt::format("share = {}", valid), options);
    EXPECT_EQ(share, valid);
  }
  for (const char* invalid : {"0.2499", "2.0001", "nan", "-1.0"}) {
    EXPECT_THAT([&] { Read(fmt::format("share = {}", invalid), options); },
                ThrowsMessage<common::InputError>(
                    HasSubstr("for share: must be a number from 0.25 to 2")));
  }
  EXPECT_EQ(share, 2.0);
}

TEST(Options, TheRangeOfANumberWithoutABoundAboveIsItsLeastValue) {
  double any = 0.5;
  double bounded = 0.5;
  const std::vector<OptionText> texts = Describe(
      {{"any", Number{&any, 1.0}}, {"bounded", Number{&bounded, 1.0, 3.0}}});
  EXPECT_EQ(texts[0].range, "a number >= 1");
  EXPECT_EQ(texts[1].range, "a number from 1 to 3");
}

TEST(Options, TheRangeOfAChoiceListsAllNames) {
  Fruit fruit = Fruit::kPear;
  const std::vector<OptionText> texts =
      Describe({{"fruit", ChoiceOf(fruit, {{"apple", Fruit::kApple},
                                           {"pear", Fruit::kPear},
                                           {"plum", Fruit::kPlum}})}});
  EXPECT_EQ(texts[0].range, "\"apple\", \"pear\" or \"plum\"");
  EXPECT_EQ(texts[0].value, "\"pear\"");
}

}  // namespace methods::options_test
