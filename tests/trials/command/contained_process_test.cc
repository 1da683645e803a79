#include "trials/command/contained_process.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <mntent.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/files.h"
#include "common/process_table.h"
#include "common/text.h"
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

// The folder of the cgroup (version 2) of a process; nothing if there is none.
std::optional<fs::path> CgroupOf(pid_t pid) {
  std::optional<fs::path> mount;
  FILE* mounts = ::setmntent("/proc/self/mounts", "r");
  while (const mntent* entry = ::getmntent(mounts)) {
    if (!mount && std::string(entry->mnt_type) == "cgroup2") {
      mount = entry->mnt_dir;
    }
  }
  ::endmntent(mounts);
  std::ifstream groups("/proc/" + std::to_string(pid) + "/cgroup");
  for (std::string line; mount && std::getline(groups, line);) {
    if (line.starts_with("0::/")) {
      return mount->string() + (line == "0::/" ? "" : line.substr(3));
    }
  }
  return std::nullopt;
}

// Moves the processes with this word out of the cgroup of their trial.
void LeaveCgroups(const std::string& mark) {
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string line = common::ReadProcFile(entry.path() / "cmdline");
    if (line.find(mark) == std::string::npos) {
      continue;
    }
    const std::string pid = entry.path().filename();
    const auto cgroup = CgroupOf(std::stoi(pid));
    if (cgroup && cgroup->filename().string().starts_with("oppa-")) {
      std::ofstream(cgroup->parent_path() / "cgroup.procs") << pid << std::endl;
    }
  }
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

TEST(ContainedProcess, LeavesThisProcessAndNoChildOfIt) {
  const pid_t self = ::getpid();
  ContainedProcess process(Shell("exit 0"));
  ASSERT_EQ(::getpid(), self);
  EXPECT_GT(process.supervisor(), 1);
  (void)Drain(process);
  EXPECT_EQ(process.supervisor(), -1);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(ContainedProcess, ProgramsAreLookedUpInThePathOfTheirEnvironment) {
  const fakes::TemporaryFolder folder;
  const fs::path first = folder.path() / "first";
  const fs::path second = folder.path() / "second";
  const auto add = [](const fs::path& path, const std::string& text) {
    fakes::WriteFile(path, "#!/bin/sh\n" + text);
    fs::permissions(path, fs::perms::owner_all);
  };
  fs::create_directories(first / "b");  // a folder is no program
  add(second / "a", "echo a\n");
  add(second / "b", "echo b\n");
  fakes::WriteFile(first / "a", "");  // may not be executed
  ContainedProcess::Spec spec;
  spec.environment = {"HOME=/",
                      "PATH=" + first.string() + ":" + second.string(),
                      "PATH=/nowhere"};
  for (const std::string name : {"a", "b"}) {
    spec.words = {name};
    ContainedProcess process(spec);
    EXPECT_EQ(Drain(process), name + "\n");
    EXPECT_EQ(process.start_error(), 0);
  }
  // Relative to the folder in which the program starts.
  spec.folder = second;
  spec.environment = {"PATH=:/nowhere"};
  ContainedProcess here(spec);
  EXPECT_EQ(Drain(here), "b\n");
  // A file that may not be executed says more than those that do not exist.
  spec.words = {"a"};
  spec.folder.clear();
  spec.environment = {"PATH=" + first.string() + ":/nowhere"};
  ContainedProcess denied(spec);
  EXPECT_EQ(Drain(denied), "");
  EXPECT_EQ(denied.start_error(), EACCES);
  spec.folder = "/nowhere";
  ContainedProcess nowhere(spec);
  EXPECT_EQ(Drain(nowhere), "");
  EXPECT_EQ(nowhere.start_error(), ENOENT);
}

TEST(ContainedProcess, ProgramsStartWithSignalsAsIfStartedByHand) {
  ::signal(SIGUSR1, SIG_IGN);
  ContainedProcess process(Shell("cat /proc/self/status"));
  const std::string output = Drain(process);
  ::signal(SIGUSR1, SIG_DFL);
  EXPECT_NE(output.find("SigBlk:\t0000000000000000\n"), std::string::npos);
  EXPECT_NE(output.find("SigIgn:\t0000000000000000\n"), std::string::npos);
}

TEST(ContainedProcess, ThePatienceIsThatBetweenSigtermAndSigkill) {
  ContainedProcess::Spec spec = Shell(
      "trap 'sleep 0.4; echo tidy; exit 0' TERM; echo up; "
      "while :; do sleep 0.02; done");
  for (const bool patient : {true, false}) {
    spec.patience_s = patient ? 60.0 : 0.05;
    ContainedProcess process(spec);
    WaitForOutput(process);
    process.End();
    EXPECT_EQ(Drain(process), patient ? "tidy\n" : "");
    ASSERT_TRUE(process.wait_status().has_value());
    EXPECT_EQ(WIFEXITED(*process.wait_status()), patient);
  }
}

TEST(ContainedProcess, OutputAfterTheEndOfTheOtherStreamIsRead) {
  ContainedProcess process(Shell("exec 2>&-; sleep 0.1; echo late"));
  EXPECT_EQ(Drain(process), "late\n");
  ContainedProcess other(Shell("exec 1>&-; sleep 0.1; echo late >&2"));
  EXPECT_EQ(Drain(other), "! late\n");
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
  LeaveCgroups(mark_);
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
  LeaveCgroups(mark_);
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

// What a record in the folder of a runner that lives finds: this process is the
// runner, so nothing is an orphan.
class RecordedProcesses : public testing::Test {
 protected:
  // A shell that the environment does not identify, detached; returns its id.
  [[nodiscard]] pid_t Start(const std::string& script) {
    FILE* out = ::popen(
        ("env -i setsid -f /bin/sh -c 'echo $$; " + script + "' sh " + mark_)
            .c_str(),
        "r");
    int pid = 0;
    EXPECT_EQ(::fscanf(out, "%d", &pid), 1);
    streams_.push_back(out);
    return pid;
  }

  ~RecordedProcesses() override {
    for (const auto& [pid, process] : common::ListProcesses()) {
      const fs::path proc = fs::path("/proc") / std::to_string(pid);
      if (common::ReadProcFile(proc / "cmdline").find(mark_) !=
          std::string::npos) {
        ::kill(pid, SIGKILL);
      }
    }
    for (FILE* stream : streams_) {
      ::pclose(stream);
    }
  }

  // Ends what a record with these lines names.
  void End(const std::string& mark,
           const std::string& cgroup,
           const std::string& processes) {
    fakes::WriteFile(folder_.path() / "trial.processes",
                     common::ProcessSpace() + "\n" + mark + "\n" + cgroup +
                         "\n" + processes);
    EndLeftovers(folder_.path());
    EXPECT_FALSE(fs::exists(folder_.path() / "trial.processes"));
  }

  static std::string StartOf(pid_t pid) {
    const auto found = common::FindProcess(pid);
    return found ? found->start : "0";
  }
  // The line of a process in a record.
  static std::string Line(pid_t pid, int later = 0) {
    return std::to_string(pid) + " " +
           std::to_string(std::stol(StartOf(pid)) + later) + "\n";
  }

  std::string mark_ = Mark();
  fakes::TemporaryFolder folder_;
  std::vector<FILE*> streams_;
};

const std::string kLoop = "while :; do /bin/sleep 0.05; done";

TEST_F(RecordedProcesses, AreFoundByTheMarkAlone) {
  ContainedProcess::Spec spec = Shell("echo up; exec sleep 60", mark_);
  spec.words.back() = mark_;
  spec.record = folder_.path() / "other" / "trial.processes";
  fs::create_directories(spec.record.parent_path());
  ContainedProcess process(spec);
  WaitForOutput(process);
  std::ifstream in(spec.record);
  std::string space;
  std::string mark;
  std::getline(in, space);
  std::getline(in, mark);
  EXPECT_EQ(space, common::ProcessSpace());
  EXPECT_TRUE(mark.starts_with("OPPA_PROCESS=")) << mark;
  End(mark + "1", "", "");
  EXPECT_FALSE(process.wait_status().has_value());
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(process.Read(0.02, [](Stream, std::string_view) {}));
  }
  End(mark, "", "");
  (void)Drain(process);
  ASSERT_TRUE(process.wait_status().has_value());
  EXPECT_EQ(WTERMSIG(*process.wait_status()), SIGKILL);
}

TEST_F(RecordedProcesses, AreThoseWithTheRecordedStart) {
  const pid_t pid = Start(kLoop);
  End("x", "", Line(pid, 1));
  EXPECT_NE(StartOf(pid), "0");
  End("x", "", Line(pid, -1));
  EXPECT_NE(StartOf(pid), "0");
  End("x", "", "1 " + StartOf(1) + "\n" + std::to_string(pid) + "\n");
  EXPECT_NE(StartOf(pid), "0");
  End("x", "", Line(pid));
  EXPECT_EQ(Alive(mark_), 0);
}

TEST_F(RecordedProcesses, IncludeThoseBelowThem) {
  const pid_t pid =
      Start("(setsid /bin/sh -c \"" + kLoop + "\" sh $1 & wait)& wait");
  ASSERT_GE(AliveInTheEnd(mark_, 3), 3);
  End("x", "", Line(pid, 1));
  EXPECT_GE(Alive(mark_), 3);
  End("x", "", Line(pid));
  EXPECT_EQ(AliveInTheEnd(mark_, 0), 0);
}

TEST_F(RecordedProcesses, IncludeTheSessionOfALeaderThatHasEnded) {
  const pid_t leader = Start("(" + kLoop + ")& " + kLoop);
  const std::string line = Line(leader);
  ASSERT_EQ(AliveInTheEnd(mark_, 2), 2);
  // While it lives its session is known by its start.
  End("x", "", Line(leader, 1));
  EXPECT_EQ(Alive(mark_), 2);
  ::kill(leader, SIGKILL);
  ASSERT_EQ(AliveInTheEnd(mark_, 1), 1);
  // A process that began before the leader is not of its session.
  End("x",
      "",
      std::to_string(leader) + " " +
          std::to_string(std::stol(line.substr(line.find(' '))) + 1000000) +
          "\n");
  EXPECT_EQ(Alive(mark_), 1);
  End("x", "", line);
  EXPECT_EQ(AliveInTheEnd(mark_, 0), 0);
}

TEST_F(RecordedProcesses, OfACgroupAreThoseOfTheMarkOnly) {
  ProcessRecord record("");
  const fs::path cgroup = record.cgroup();
  const auto own = CgroupOf(::getpid());
  if (!own || ::access((*own / "cgroup.procs").c_str(), W_OK) != 0) {
    EXPECT_EQ(cgroup, "");
    GTEST_SKIP() << "no cgroup can be created here";
  }
  EXPECT_EQ(cgroup.parent_path(), *own);
  ASSERT_TRUE(fs::is_directory(cgroup));
  const std::string id = record.mark().substr(record.mark().find('=') + 1);
  EXPECT_EQ(cgroup.filename(), "oppa-" + id);
  const pid_t pid = Start(kLoop);
  std::ofstream(cgroup / "cgroup.procs") << pid << std::endl;
  ASSERT_EQ(CgroupOf(pid), cgroup);
  End(record.mark() + "1", cgroup, "");
  EXPECT_NE(StartOf(pid), "0");
  ASSERT_TRUE(fs::exists(cgroup));
  End(record.mark(), cgroup, "");
  EXPECT_EQ(AliveInTheEnd(mark_, 0), 0);
  record.Remove();
  EXPECT_FALSE(fs::exists(cgroup));
}

TEST(ProcessRecord, EachHasAMarkOfItsOwn) {
  ProcessRecord a("");
  ProcessRecord b("");
  EXPECT_NE(a.mark(), b.mark());
  const auto parts = common::Split(a.mark(), '.');
  ASSERT_EQ(parts.size(), 4U);
  EXPECT_EQ(parts[1], std::to_string(::getpid()));
  EXPECT_EQ(parts[2], common::FindProcess(::getpid())->start);
  a.Remove();
  b.Remove();
}

TEST(ProcessRecord, NamesEachDescendantOnceWithItsStart) {
  const fakes::TemporaryFolder folder;
  const fs::path path = folder.path() / "trial.processes";
  ProcessRecord record(path);
  const pid_t child = ::fork();
  if (child == 0) {
    ::execl("/bin/sleep", "sleep", "60", nullptr);
    ::_exit(1);
  }
  record.Track(child);  // nothing is below it
  const std::string head = common::ProcessSpace() + "\n" + record.mark() +
                           "\n" + record.cgroup().string() + "\n";
  EXPECT_EQ(fakes::ReadFile(path), head);
  record.Track(::getpid());
  EXPECT_EQ(fakes::ReadFile(path),
            head + std::to_string(child) + " " +
                common::FindProcess(child)->start + "\n");
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  record.Remove();
  EXPECT_FALSE(fs::exists(path));
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
