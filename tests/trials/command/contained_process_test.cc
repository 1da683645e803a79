#include "trials/command/contained_process.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/files.h"
#include "tests/fakes/temporary_folder.h"

namespace trials {
namespace {

namespace fs = std::filesystem;
using Stream = ContainedProcess::Stream;

// A word that the command lines of a test's processes have in common.
std::string Mark() {
  static int count = 0;
  return "oppa-contained-" + std::to_string(::getpid()) + "-" +
         std::to_string(++count);
}

// How many processes have it.
int Alive(const std::string& mark) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string line = common::ReadProcFile(entry.path() / "cmdline");
    count += line.find(mark) != std::string::npos ? 1 : 0;
  }
  return count;
}

ContainedProcess::Spec Shell(const std::string& script,
                             const std::string& mark = "") {
  ContainedProcess::Spec spec;
  spec.words = {"/bin/sh", "-c", script, "sh", mark};
  spec.environment = {"PATH=/usr/bin:/bin", "MARK=" + mark};
  spec.patience_s = 0.3;
  return spec;
}

// Reads until nothing is left.
std::string Drain(ContainedProcess& process) {
  std::string output;
  while (process.Read(0.1, [&](Stream stream, std::string_view text) {
    output += stream == Stream::kOutput ? "" : "! ";
    output += text;
  })) {
  }
  return output;
}

// Waits until the program has said that it is there.
void WaitForOutput(ContainedProcess& process) {
  bool said = false;
  while (!said &&
         process.Read(0.1, [&](Stream, std::string_view) { said = true; })) {
  }
}

// A process that outlives its parent, its session and its process group, and
// ignores what it can.
const std::string kStray =
    "(trap '' TERM HUP INT; exec setsid -f sh -c "
    "'trap \"\" TERM HUP INT; while :; do sleep 0.05; done' \"$1\")";

TEST(ContainedProcess, TellsOutputErrorsAndExitCode) {
  ContainedProcess process(Shell("echo here; echo there >&2; exit 3"));
  const std::string output = Drain(process);
  EXPECT_NE(output.find("here\n"), std::string::npos);
  EXPECT_NE(output.find("! there\n"), std::string::npos);
  ASSERT_TRUE(process.wait_status().has_value());
  EXPECT_EQ(WEXITSTATUS(*process.wait_status()), 3);
}

TEST(ContainedProcess, SaysWhyAProgramCannotBeStarted) {
  ContainedProcess::Spec spec;
  spec.words = {"/no/such/program"};
  ContainedProcess process(spec);
  (void)Drain(process);
  EXPECT_EQ(process.start_error(), ENOENT);
}

TEST(ContainedProcess, WordsReachTheProgramAsTheyAre) {
  ContainedProcess::Spec spec = Shell("");
  spec.words = {"/bin/echo", "$(date)", "a b;rm -rf", "'\"`"};
  ContainedProcess process(spec);
  EXPECT_EQ(Drain(process), "$(date) a b;rm -rf '\"`\n");
}

TEST(ContainedProcess, KillsASetsidGrandchildThatIsLeftBehind) {
  const std::string mark = Mark();
  ContainedProcess process(Shell(kStray + "; " + kStray + "; exit 0", mark));
  (void)Drain(process);
  EXPECT_EQ(WEXITSTATUS(*process.wait_status()), 0);
  EXPECT_EQ(Alive(mark), 0);
}

TEST(ContainedProcess, EndKillsWhatIgnoresSigterm) {
  const std::string mark = Mark();
  ContainedProcess process(Shell(
      "trap '' TERM; " + kStray + "; echo up; while :; do sleep 0.05; done",
      mark));
  WaitForOutput(process);
  // The stray process has been forked, but may not have its command line yet.
  for (int wait = 0; wait < 100 && Alive(mark) < 2; ++wait) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_GE(Alive(mark), 2);
  process.End();
  (void)Drain(process);
  EXPECT_EQ(WTERMSIG(*process.wait_status()), SIGKILL);
  EXPECT_EQ(Alive(mark), 0);
}

TEST(ContainedProcess, EndLetsAProgramTidyUp) {
  ContainedProcess process(
      Shell("trap 'echo tidy; exit 0' TERM; echo up; "
            "while :; do sleep 0.02; done"));
  WaitForOutput(process);
  process.End();
  EXPECT_NE(Drain(process).find("tidy"), std::string::npos);
}

TEST(ContainedProcess, EndReachesAStoppedProgram) {
  const std::string mark = Mark();
  ContainedProcess process(Shell("echo up; kill -STOP $$", mark));
  WaitForOutput(process);
  process.End();
  (void)Drain(process);
  EXPECT_EQ(Alive(mark), 0);
}

TEST(ContainedProcess, NothingIsLeftWhenTheObjectGoes) {
  const std::string mark = Mark();
  {
    ContainedProcess process(Shell(kStray + "; echo up; sleep 60", mark));
    WaitForOutput(process);
  }
  EXPECT_EQ(Alive(mark), 0);
}

TEST(ContainedProcess, NothingIsLeftWhenTheSupervisorIsKilled) {
  const std::string mark = Mark();
  ContainedProcess process(
      Shell("trap '' TERM; " + kStray + "; echo up; sleep 60", mark));
  WaitForOutput(process);
  ::kill(process.supervisor(), SIGKILL);
  (void)Drain(process);
  EXPECT_FALSE(process.wait_status().has_value());
  EXPECT_EQ(Alive(mark), 0);
}

TEST(ContainedProcess, NothingIsLeftWhenThisProcessIsKilled) {
  const std::string mark = Mark();
  fakes::TemporaryFolder folder;
  const fs::path up = folder.path() / "up";
  const pid_t runner = ::fork();
  if (runner == 0) {
    ContainedProcess process(
        Shell(kStray + "; touch " + up.string() + "; sleep 60", mark));
    (void)Drain(process);
    ::_exit(0);
  }
  while (!fs::exists(up)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_GE(Alive(mark), 2);
  ::kill(runner, SIGKILL);
  ::waitpid(runner, nullptr, 0);
  for (int i = 0; i < 1000 && Alive(mark) > 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(Alive(mark), 0);
}

TEST(ContainedProcess, HoldsNoDescriptorOfOurs) {
  fakes::TemporaryFolder folder;
  const std::ofstream record(folder.path() / "record");
  ContainedProcess process(Shell("ls -l /proc/$$/fd; readlink /proc/$$/fd/0"));
  const std::string output = Drain(process);
  EXPECT_EQ(output.find("record"), std::string::npos) << output;
  EXPECT_NE(output.find("/dev/null"), std::string::npos) << output;
}

}  // namespace
}  // namespace trials
