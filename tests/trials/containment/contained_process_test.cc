#include "trials/containment/contained_process.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "tests/fakes/temporary_folder.h"
#include "tests/trials/containment/contained.h"

namespace trials::contained_process_test {

namespace fs = std::filesystem;

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
  std::fflush(stdout);  // which a child flushes under the thread sanitizer
  ContainedProcess denied(spec);
  EXPECT_EQ(Drain(denied), "");
  EXPECT_EQ(denied.start_error(), EACCES);
  spec.folder = "/nowhere";
  ContainedProcess nowhere(spec);
  EXPECT_EQ(Drain(nowhere), "");
  EXPECT_EQ(nowhere.start_error(), ENOENT);
}

// Signals of a mask in /proc/self/status, without 32 and above: those of the C
// library cannot be set, and are ignored below a program that used posix_spawn,
// such as make.
std::uint64_t Signals(const std::string& status, const std::string& mask) {
  const std::size_t at = status.find(mask + ":\t");
  return at == std::string::npos
             ? ~std::uint64_t{0}
             : std::stoull(status.substr(at + mask.size() + 2), nullptr, 16) &
                   0x7fffffffU;
}

TEST(ContainedProcess, ProgramsStartWithSignalsAsIfStartedByHand) {
  ::signal(SIGUSR1, SIG_IGN);
  ContainedProcess process(Shell("cat /proc/self/status"));
  const std::string status = Drain(process);
  ::signal(SIGUSR1, SIG_DFL);
  EXPECT_EQ(Signals(status, "SigBlk"), 0U);
  EXPECT_EQ(Signals(status, "SigIgn"), 0U);
}

TEST(ContainedProcess, ThePatienceIsThatBetweenSigtermAndSigkill) {
  for (const bool patient : {true, false}) {
    ContainedProcess::Spec spec =
        Shell("trap 'sleep " + std::string(patient ? "0.4" : "60") +
              "; echo tidy; exit 0' TERM; echo up; "
              "while :; do sleep 0.02; done");
    spec.patience_s = patient ? 60.0 : 0.05;
    ContainedProcess process(spec);
    WaitForOutput(process);
    process.End();
    EXPECT_EQ(Drain(process).find("tidy") != std::string::npos, patient);
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
  // A sleep of the program may be the second one for a moment.
  int alive = Alive(mark);
  for (int wait = 0; wait < 100 && alive < 2; ++wait) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    alive = Alive(mark);
  }
  EXPECT_GE(alive, 2);
  process.End();
  (void)Drain(process);
  EXPECT_EQ(WTERMSIG(*process.wait_status()), SIGKILL);
  EXPECT_EQ(Alive(mark), 0);
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
  // A process that is between fork and exec has no environment to be read.
  while (!fs::exists(up) || Alive(mark) < 2) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
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

TEST(ContainedProcess, AStoppedSupervisorEndsAllWhenThisProcessIsKilled) {
  const std::string mark = Mark();
  fakes::TemporaryFolder folder;
  const fs::path up = folder.path() / "up";
  const fs::path supervisor = folder.path() / "supervisor";
  const pid_t runner =
      StartRunner(Shell(kStray + "; touch " + up.string() + "; sleep 60", mark),
                  up, supervisor);
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

// The descriptors of a program that starts while we have a file `record` open.
std::string DescriptorsOfAProgram() {
  fakes::TemporaryFolder folder;
  const std::ofstream record(folder.path() / "record");
  ContainedProcess process(Shell("ls -l /proc/$$/fd; readlink /proc/$$/fd/0"));
  return Drain(process);
}

TEST(ContainedProcess, HoldsNoDescriptorOfOurs) {
  const std::string output = DescriptorsOfAProgram();
  EXPECT_EQ(output.find("record"), std::string::npos) << output;
  EXPECT_NE(output.find("/dev/null"), std::string::npos) << output;
}

TEST(ContainedProcess, HoldsNoDescriptorOfOursWhereLinuxLacksCloseRange) {
  const pid_t old_linux = ::fork();
  if (old_linux == 0) {
    std::array<sock_filter, 4> filter = {
        {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
         BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)}};
    const sock_fprog program{filter.size(), filter.data()};
    const bool set =
        ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
        ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
    const std::string output = set ? DescriptorsOfAProgram() : "record";
    ::_exit(output.find("record") == std::string::npos &&
                    output.find("/dev/null") != std::string::npos
                ? 0
                : 1);
  }
  int status = -1;
  ::waitpid(old_linux, &status, 0);
  EXPECT_EQ(status, 0);
}

// Processes are listed again and again, but not only when the program starts.
TEST(ContainedProcess, NothingThatIsStartedLateIsLeftByAKilledSupervisor) {
  const std::string mark = Mark();
  const fakes::TemporaryFolder folder;
  const fs::path go = folder.path() / "go";
  ContainedProcess process(Shell("echo up; while [ ! -e " + go.string() +
                                     " ]; do sleep 0.01; done; " +
                                     std::string(kClearedStray) + "; sleep 60",
                                 mark));
  WaitForOutput(process);
  const auto read = [&](double seconds) {
    const double end_s = common::SteadySeconds() + seconds;
    while (common::SteadySeconds() < end_s) {
      (void)process.Read(0.01, [](Stream, std::string_view) {});
    }
  };
  read(0.1);
  fakes::WriteFile(go, "");
  ASSERT_EQ(AliveInTheEnd(mark, 2), 2);
  read(0.5);
  ::kill(process.supervisor(), SIGKILL);
  (void)Drain(process);
  EXPECT_EQ(Alive(mark), 0);
}

}  // namespace trials::contained_process_test
