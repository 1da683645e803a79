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

#include "common/clock.h"
#include "common/files.h"
#include "tests/fakes/temporary_folder.h"
#include "trials/command/leftovers.h"

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

// How many have it in the end: a process that starts a program is two for a
// moment.
int AliveInTheEnd(const std::string& mark, int expected) {
  int alive = Alive(mark);
  for (int wait = 0; wait < 200 && alive != expected; ++wait) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    alive = Alive(mark);
  }
  return alive;
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

TEST(ContainedProcess, EndReachesTheProgramOfAStoppedSupervisor) {
  const std::string mark = Mark();
  ContainedProcess process(Shell("echo up; sleep 60", mark));
  WaitForOutput(process);
  ::kill(process.supervisor(), SIGSTOP);
  process.End();
  const double end_s = common::SteadySeconds() + 10.0;
  bool runs = true;
  while (runs && common::SteadySeconds() < end_s) {
    runs = process.Read(0.1, [](Stream, std::string_view) {});
  }
  EXPECT_FALSE(runs) << "after 10 s";
  EXPECT_EQ(Alive(mark), 0);
  if (runs) {
    ::kill(process.supervisor(), SIGCONT);
  }
}

// Starts a program with the record and returns after `up` exists; the process
// that holds it is returned, and its supervisor is in `supervisor`.
pid_t StartRunner(ContainedProcess::Spec spec,
                  const fs::path& up,
                  const fs::path& supervisor) {
  const pid_t runner = ::fork();
  if (runner == 0) {
    ContainedProcess process(spec);
    std::ofstream(supervisor) << process.supervisor() << std::endl;
    (void)Drain(process);
    ::_exit(0);
  }
  while (!fs::exists(up) || fs::is_empty(supervisor)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return runner;
}

void KillBoth(pid_t runner, const fs::path& supervisor) {
  pid_t pid = 0;
  std::ifstream(supervisor) >> pid;
  ASSERT_GT(pid, 1);
  ::kill(runner, SIGSTOP);  // so that it does not notice
  ::kill(pid, SIGKILL);
  ::kill(runner, SIGKILL);
  ::waitpid(runner, nullptr, 0);
}

TEST(ContainedProcess, AStoppedSupervisorEndsAllWhenThisProcessIsKilled) {
  const std::string mark = Mark();
  fakes::TemporaryFolder folder;
  const fs::path up = folder.path() / "up";
  const fs::path supervisor = folder.path() / "supervisor";
  const pid_t runner =
      StartRunner(Shell(kStray + "; touch " + up.string() + "; sleep 60", mark),
                  up,
                  supervisor);
  pid_t pid = 0;
  std::ifstream(supervisor) >> pid;
  ::kill(runner, SIGSTOP);
  ::kill(pid, SIGSTOP);
  ::kill(runner, SIGKILL);
  ::waitpid(runner, nullptr, 0);
  for (int i = 0; i < 500 && Alive(mark) > 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(Alive(mark), 0);
  ::kill(pid, SIGCONT);
}

// What each way to recognize processes finds, alone.
class Leftovers : public testing::Test {
 protected:
  // Kills runner and supervisor of a program that left a stray process. Tests
  // that run at the same time may end that process, as they should: then
  // another one is left.
  void LeaveStray(const std::string& stray, const fs::path& record) {
    constexpr int kAttempts = 20;
    for (int i = 0; i < kAttempts; ++i) {
      LeaveStrayOnce(stray, record);
      if (Alive(mark_) == 1) {
        return;
      }
    }
    FAIL() << "no stray process is left";
  }

  std::string mark_ = Mark();
  fakes::TemporaryFolder folder_;

 private:
  void LeaveStrayOnce(const std::string& stray, const fs::path& record) {
    const fs::path up = folder_.path() / "up";
    const fs::path supervisor = folder_.path() / "supervisor";
    fs::remove(up);
    fs::remove(supervisor);
    ContainedProcess::Spec spec = Shell(
        stray + "; sleep 0.5; touch " + up.string() + "; sleep 60", mark_);
    spec.record = record;
    const pid_t runner = StartRunner(spec, up, supervisor);
    KillBoth(runner, supervisor);
    // The program itself ends with its supervisor.
    for (int wait = 0; wait < 500 && Alive(mark_) > 1; ++wait) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
};

constexpr const char* kClearedStray =
    "env -i setsid -f /bin/sh -c 'while :; do /bin/sleep 0.05; done' \"$1\"";

TEST_F(Leftovers, OfAKilledRunnerAndSupervisorAreFoundByTheirEnvironment) {
  LeaveStray(kStray, "");  // no record
  EndLeftovers(folder_.path());
  EXPECT_EQ(Alive(mark_), 0);
}

TEST_F(Leftovers, WithoutTheirEnvironmentAreFoundByTheRecord) {
  const fs::path record = folder_.path() / "trial.processes";
  LeaveStray(kClearedStray, record);
  EndLeftovers(folder_.path());
  EXPECT_EQ(Alive(mark_), 0);
  EXPECT_FALSE(fs::exists(record));
}

TEST_F(Leftovers, WithoutEnvironmentAndCgroupAreFoundByTheirStart) {
  const fs::path record = folder_.path() / "trial.processes";
  LeaveStray(kClearedStray, record);
  std::ifstream in(record);
  std::string space;
  std::string mark;
  std::string cgroup;
  std::getline(in, space);
  std::getline(in, mark);
  std::getline(in, cgroup);
  const std::string rest(std::istreambuf_iterator<char>(in), {});
  std::ofstream(record) << space << '\n' << mark << "\n\n" << rest;
  EndLeftovers(folder_.path());
  EXPECT_EQ(Alive(mark_), 0);
  if (!cgroup.empty()) {
    ::rmdir(cgroup.c_str());
  }
}

TEST_F(Leftovers, WithoutEnvironmentAreFoundByTheCgroupAlone) {
  const fs::path record = folder_.path() / "trial.processes";
  LeaveStray(kClearedStray, record);
  std::ifstream in(record);
  std::string head;
  std::string line;
  for (int i = 0; i < 3 && std::getline(in, line); ++i) {
    head += line + "\n";
  }
  if (!line.empty()) {
    std::ofstream(record) << head;
  }
  EndLeftovers(folder_.path());
  EXPECT_EQ(Alive(mark_), 0);
  if (line.empty()) {
    GTEST_SKIP() << "no cgroup can be created here";
  }
  EXPECT_FALSE(fs::exists(line));
}

TEST_F(Leftovers, OfARunnerThatLivesStay) {
  ContainedProcess process(Shell("echo up; sleep 60", mark_));
  WaitForOutput(process);
  EndLeftovers(folder_.path());
  EXPECT_EQ(AliveInTheEnd(mark_, 1), 1);
}

TEST_F(Leftovers, ARecordOfAnotherProcessSpaceEndsNothing) {
  ContainedProcess::Spec spec = Shell("echo up; sleep 60", mark_);
  spec.record = folder_.path() / "trial.processes";
  ContainedProcess process(spec);
  WaitForOutput(process);
  const std::string text = common::ReadFile(spec.record);
  common::ReplaceFile(spec.record, "another " + text);
  EndLeftovers(folder_.path());
  EXPECT_EQ(AliveInTheEnd(mark_, 1), 1);
}

TEST(ContainedProcess,
     NothingWithAClearedEnvironmentIsLeftByAKilledSupervisor) {
  const std::string mark = Mark();
  ContainedProcess process(
      Shell(std::string(kClearedStray) + "; echo up; sleep 60", mark));
  WaitForOutput(process);
  for (int i = 0; i < 20; ++i) {
    (void)process.Read(0.02, [](Stream, std::string_view) {});
  }
  ASSERT_EQ(AliveInTheEnd(mark, 2), 2);
  ::kill(process.supervisor(), SIGKILL);
  (void)Drain(process);
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
