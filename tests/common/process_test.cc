#include "common/process.h"

#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/clock.h"

namespace common::process_test {

TEST(RunCommand, KeepsBothOutputsAndTheExitCode) {
  const CommandResult result = RunCommand(
      {"sh", "-c", "echo out; echo err >&2; exit 3"}, CurrentEnvironment());
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.output, "out\n");
  EXPECT_EQ(result.errors, "err\n");
  EXPECT_FALSE(result.cut_off);
}

TEST(RunCommand, EndsACommandThatHangsWithAllItsProcesses) {
  const double begin_s = SteadySeconds();
  const CommandResult result = RunCommand(
      {"sh", "-c", "echo out; sleep 60 & sleep 60"}, CurrentEnvironment(), 0.3);
  EXPECT_LT(SteadySeconds() - begin_s, 30.0);
  EXPECT_TRUE(result.cut_off);
  EXPECT_EQ(result.output, "out\n");
  EXPECT_THAT(result.errors,
              testing::HasSubstr("timed out: sh gave no answer within 0.3 s"));
}

TEST(RunCommand, EndsWithoutAnAnswerOnRequestAndWhereOutputHasNoEnd) {
  const double begin_s = SteadySeconds();
  const auto errors_of = [](const std::string& program,
                            const std::function<bool()>& stop) {
    const CommandResult result =
        RunCommand({program, "60"}, CurrentEnvironment(), 50.0, stop);
    EXPECT_TRUE(result.cut_off);
    EXPECT_NE(result.exit_code, 0);
    return result.errors;
  };
  EXPECT_EQ(errors_of("sleep", [] { return true; }), "sleep was interrupted");
  EXPECT_EQ(errors_of("yes", {}), "yes printed too much");
  EXPECT_LT(SteadySeconds() - begin_s, 30.0);
}

TEST(RunCommand, DoesNotWaitForADaemonThatKeepsTheOutputOpen) {
  const double begin_s = SteadySeconds();
  const CommandResult result = RunCommand(
      {"sh", "-c", "setsid sleep 60 & echo out"}, CurrentEnvironment());
  EXPECT_LT(SteadySeconds() - begin_s, 30.0);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.output, "out\n");
}

TEST(RunCommand, NamesAProgramThatDoesNotExist) {
  const CommandResult result =
      RunCommand({"no-such-program"}, CurrentEnvironment());
  EXPECT_EQ(result.exit_code, 127);
  EXPECT_THAT(result.errors, testing::HasSubstr("no-such-program"));
}

TEST(ShellLine, IsReadBackByAShell) {
  const std::vector<std::string> words = {
      "a", "b c", "it's", "$x", "", "--y=1", "*", "\\", "\"", "line\nbreak"};
  std::vector<std::string> command = {"sh", "-c"};
  command.push_back("printf '%s|' " + ShellLine(words));
  EXPECT_EQ(RunCommand(command, CurrentEnvironment()).output,
            "a|b c|it's|$x||--y=1|*|\\|\"|line\nbreak|");
  EXPECT_EQ(ShellLine({"a", "b c", "it's", "$x", ""}),
            "a 'b c' 'it'\\''s' '$x' ''");
}

}  // namespace common::process_test
