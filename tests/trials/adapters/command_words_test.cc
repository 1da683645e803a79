#include "trials/adapters/command_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trials::command_words_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Words = std::vector<std::string>;

TEST(CommandWords, TreatsDashesAndUnderscoresAlike) {
  Words words = {"run", "--max-steps", "5", "--flag", "True"};
  EXPECT_EQ(FlagValue(words, "--max_steps", true), "5");
  EXPECT_EQ(FlagValue(words, "__max_steps", true), "5");
  EXPECT_EQ(FlagValue(words, "--max.steps", true), std::nullopt);
  EXPECT_EQ(FlagValue({"--max.steps", "5"}, "--max-steps", true), std::nullopt);
  EXPECT_EQ(FlagValue({"--max-steps", "5"}, "--maxxsteps", true), std::nullopt);
  EXPECT_EQ(FlagValue(words, "--maxxsteps", true), std::nullopt);
  EXPECT_EQ(FlagValue(words, "--max-step", true), std::nullopt);
  RemoveFlag(words, "--flag", false);
  EXPECT_THAT(words, ElementsAre("run", "--max-steps", "5"));
}

TEST(CommandWords, ReadsTheValueAfterASpaceOrAnEqualsSign) {
  EXPECT_EQ(FlagValue({"--lr", "1"}, "--lr", true), "1");
  EXPECT_EQ(FlagValue({"--lr=1"}, "--lr", true), "1");
  EXPECT_EQ(FlagValue({"--lr=a=b"}, "--lr", true), "a=b");
  EXPECT_EQ(FlagValue({"--lr=", "2"}, "--lr", true), "");
  EXPECT_EQ(FlagValue({"--lr"}, "--lr", true), "");
  // The last one counts, and a word without a dash is a value.
  EXPECT_EQ(FlagValue({"--lr", "1", "--lr", "2"}, "--lr", true), "2");
  EXPECT_EQ(FlagValue({"lr", "--a", "lr"}, "lr", true), std::nullopt);
}

TEST(CommandWords, AFlagWithoutAValueMayBeSwitchedOff) {
  EXPECT_EQ(FlagValue({"--on", "other"}, "--on", false), "");
  for (const char* word : {"False", "false"}) {
    EXPECT_EQ(FlagValue({"run", "--on", word}, "--on", false), std::nullopt);
  }
  for (const char* word : {"True", "true"}) {
    EXPECT_EQ(FlagValue({"run", "--on", word}, "--on", false), "");
  }
  EXPECT_EQ(FlagValue({"--on", "x", "False"}, "--on", false), "");
}

Words Set(Words words, bool has_value) {
  SetFlagWord(words, "--x", has_value, "7");
  return words;
}

TEST(CommandWords, SetsAFlagWhereItIsOrAddsItAtTheEnd) {
  EXPECT_THAT(Set({"a", "b"}, true), ElementsAre("a", "b", "--x", "7"));
  EXPECT_THAT(Set({"a", "b"}, false), ElementsAre("a", "b", "--x"));
  EXPECT_THAT(Set({"a", "--x", "1", "b"}, true),
              ElementsAre("a", "--x", "7", "b"));
  EXPECT_THAT(Set({"a", "--x=1", "b"}, true), ElementsAre("a", "--x=7", "b"));
  EXPECT_THAT(Set({"a", "--x=1", "b"}, false), ElementsAre("a", "--x", "b"));
  EXPECT_THAT(Set({"a", "--x"}, true), ElementsAre("a", "--x", "7"));
  EXPECT_THAT(Set({"a", "--x", "b"}, false), ElementsAre("a", "--x", "b"));
  EXPECT_THAT(Set({"a", "--x", "False", "b"}, false),
              ElementsAre("a", "--x", "b"));
}

TEST(CommandWords, ReadsAndSetsKeysOfHydra) {
  Words words = {"train.py", "opt.lr=1", "+trainer.steps=5", "x"};
  EXPECT_EQ(FlagValue(words, "trainer.steps", true), "5");
  EXPECT_EQ(FlagValue(words, "steps", true), std::nullopt);
  SetFlagWord(words, "trainer.steps", true, "7");
  SetFlagWord(words, "micro", true, "2");
  RemoveFlag(words, "opt.lr", true);
  EXPECT_THAT(words,
              ElementsAre("train.py", "+trainer.steps=7", "x", "micro=2"));
}

TEST(CommandWords, ReadsAndSetsFlagsOfAbsl) {
  Words words = {"train.py", "--remat", "--noamp", "--no-log"};
  EXPECT_EQ(FlagValue(words, "--remat=", true), "true");
  EXPECT_EQ(FlagValue(words, "--amp=", true), "false");
  EXPECT_EQ(FlagValue(words, "--log", false), std::nullopt);
  RemoveFlag(words, "--log", false);  // it is off already
  SetFlagWord(words, "--amp=", true, "true");
  SetFlagWord(words, "--remat=", true, "false");
  SetFlagWord(words, "--steps=", true, "7");
  EXPECT_THAT(words, ElementsAre("train.py", "--remat=false", "--amp=true",
                                 "--no-log", "--steps=7"));
}

TEST(CommandWords, AddsAFlagInTheFormOfTheOthers) {
  const auto add = [](Words words) {
    SetFlagWord(words, "--x", true, "7");
    return words.back();
  };
  EXPECT_EQ(add({"torchrun", "--nproc", "2", "a.py", "--b=1"}), "--x=7");
  EXPECT_EQ(add({"torchrun", "--nproc=2", "a.py", "--b", "1"}), "7");
  EXPECT_EQ(add({"torchrun", "--nproc=2", "a.py", "--on"}), "7");
  EXPECT_EQ(add({"torchrun", "-m", "a", "--b=1", "--c", "1"}), "7");
}

TEST(CommandWords, RemovesAFlagWhereverItIs) {
  const auto without = [](Words words, bool has_value) {
    RemoveFlag(words, "--x", has_value);
    return words;
  };
  EXPECT_THAT(without({"--x", "1", "a", "--x=2", "b", "--x", "3"}, true),
              ElementsAre("a", "b"));
  EXPECT_THAT(without({"--x", "a", "--x", "true"}, false), ElementsAre("a"));
  EXPECT_THAT(without({"--x"}, true), IsEmpty());
  EXPECT_THAT(without({"--y", "1"}, true), ElementsAre("--y", "1"));
}

TEST(CommandWords, AnOptionHasAValueWhereOneFollows) {
  const Words words = {"a.py", "--on", "--n", "-1", "--s=x", "--a.no-b"};
  EXPECT_EQ(OptionValue(words, "--on"), "true");
  EXPECT_EQ(OptionValue(words, "--n"), "-1");
  EXPECT_EQ(OptionValue(words, "--s"), "x");
  EXPECT_EQ(OptionValue(words, "--a.b"), "false");
  EXPECT_EQ(OptionValue(words, "--z"), std::nullopt);
  Words rest = words;
  for (const char* option : {"--on", "--n", "--s", "--a.b"}) {
    RemoveOption(rest, option);
  }
  EXPECT_THAT(rest, ElementsAre("a.py"));
}

// tyro takes '-' and '_' alike.
TEST(CommandWords, ASubcommandIsTakenWithItsFlags) {
  Words words = {"a.py", "--x", "1", "check_point:full", "--check.y", "2"};
  EXPECT_EQ(FlagValue(words, "check-point:", true), "full");
  Words taken = TakeSubcommand(words, "check-point:");
  EXPECT_THAT(words, ElementsAre("a.py", "--x", "1"));
  SetFlagWord(taken, "check-point:", true, "none");
  EXPECT_THAT(taken, ElementsAre("check_point:none", "--check.y", "2"));
  EXPECT_THAT(TakeSubcommand(words, "check-point:"), IsEmpty());
}

}  // namespace trials::command_words_test
