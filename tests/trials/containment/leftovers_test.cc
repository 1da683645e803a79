#include "trials/containment/leftovers.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/files.h"
#include "common/process.h"
#include "tests/fakes/temporary_folder.h"
#include "tests/trials/containment/contained.h"

namespace trials::leftovers_test {

namespace fs = std::filesystem;

void KillBoth(pid_t runner, const fs::path& supervisor) {
  pid_t pid = 0;
  std::ifstream(supervisor) >> pid;
  ASSERT_GT(pid, 1);
  ::kill(runner, SIGSTOP);  // so that it does not notice
  ::kill(pid, SIGKILL);
  ::kill(runner, SIGKILL);
  ::waitpid(runner, nullptr, 0);
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

TEST_F(Leftovers, OfARunnerThatLivesStay) {
  ContainedProcess process(Shell("echo up; sleep 60", mark_));
  WaitForOutput(process);
  EndLeftovers(folder_.path());
  EXPECT_EQ(AliveInTheEnd(mark_, 1), 1);
}

// As after `cp -r` of the folder of a run that goes on.
TEST_F(Leftovers, ARecordWhoseRunnerLivesEndsNothing) {
  ContainedProcess::Spec spec = Shell("echo up; sleep 60", mark_);
  spec.record = folder_.path() / "trial.processes";
  ContainedProcess process(spec);
  WaitForOutput(process);
  const fs::path copies = folder_.path() / "copy";
  fs::create_directory(copies);
  fs::copy_file(spec.record, copies / "trial.processes");
  EndLeftovers(copies);
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

TEST_F(Leftovers, ARecordThatAnotherUserMayHaveWrittenEndsNothing) {
  ContainedProcess::Spec spec = Shell("echo up; sleep 60", mark_);
  spec.record = folder_.path() / "trial.processes";
  ContainedProcess process(spec);
  WaitForOutput(process);
  const auto mode = [&] { return fs::status(spec.record).permissions(); };
  EXPECT_EQ(mode(), fs::perms::owner_read | fs::perms::owner_write);
  fs::permissions(spec.record, fs::perms::group_write, fs::perm_options::add);
  EndLeftovers(folder_.path());
  EXPECT_EQ(AliveInTheEnd(mark_, 1), 1);
  fs::permissions(spec.record, fs::perms::group_write,
                  fs::perm_options::remove);
  if (::chown(spec.record.c_str(), 65534, 65534) == 0) {  // as root
    EndLeftovers(folder_.path());
    EXPECT_EQ(AliveInTheEnd(mark_, 1), 1);
  }
}

// What a record in the folder of a runner that lives finds: this process is the
// runner, so nothing is an orphan.
class RecordedProcesses : public testing::Test {
 protected:
  RecordedProcesses() { fakes::WriteFile(record_, ""); }

  // A detached shell with nothing but `variable` in its environment; returns
  // its id.
  [[nodiscard]] pid_t Start(const std::string& script,
                            const std::string& variable = "") {
    FILE* out =
        ::popen(("env -i " + variable + " setsid -f /bin/sh -c 'echo $$; " +
                 script + "' sh " + mark_)
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

  // Ends what a record with these lines names, that was created before.
  void End(const std::string& processes) {
    fakes::WriteFile(record_, common::ProcessSpace() + "\nx\n" + processes);
    fs::create_hard_link(record_, folder_.path() / "trial.processes");
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
  fs::path record_ = folder_.path() / "kept";
  std::vector<FILE*> streams_;
};

const std::string kLoop = "while :; do /bin/sleep 0.05; done";

// There is no process with the number 999999999.
TEST_F(RecordedProcesses, AreOrphansOnlyOfRunnersInThisProcessSpace) {
  ProcessRecord record("");
  const std::string space = record.mark().substr(0, record.mark().find('.'));
  record.Remove();
  const pid_t here = Start(kLoop, space + ".999999999.0.1");
  const pid_t elsewhere =
      Start(kLoop, "OPPA_PROCESS=0123456789abcdef.999999999.0.1");
  EXPECT_NE(here, elsewhere);
  EndLeftovers(folder_.path());
  EXPECT_EQ(AliveInTheEnd(mark_, 1), 1);
  EXPECT_TRUE(common::FindProcess(elsewhere).has_value());
}

TEST_F(RecordedProcesses, AreThoseWithTheRecordedStart) {
  const pid_t pid = Start(kLoop);
  End(Line(pid, 1));
  EXPECT_NE(StartOf(pid), "0");
  End(Line(pid, -1));
  EXPECT_NE(StartOf(pid), "0");
  End("1 " + StartOf(1) + "\n" + std::to_string(pid) + "\n");
  EXPECT_NE(StartOf(pid), "0");
  End(Line(pid));
  EXPECT_EQ(Alive(mark_), 0);
}

// A record that was unpacked has the process space and the start of a process
// that anyone can see, but is younger than it.
TEST_F(RecordedProcesses, AreNotThoseThatStartedBeforeTheRecordWasCreated) {
  const pid_t pid = Start(kLoop);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const fs::path unpacked = folder_.path() / "trial.processes";
  fakes::WriteFile(unpacked, common::ProcessSpace() + "\nx\n" + Line(pid));
  fs::last_write_time(
      unpacked, fs::file_time_type::clock::now() - std::chrono::hours(24));
  EndLeftovers(folder_.path());
  EXPECT_EQ(AliveInTheEnd(mark_, 1), 1);
}

// The mark of a trial that runs cannot be guessed.
TEST_F(RecordedProcesses, HaveMarksThatDifferByMoreThanACount) {
  const auto end = [](const ProcessRecord& record) {
    return record.mark().substr(record.mark().rfind('.') + 1);
  };
  const ProcessRecord one("");
  const ProcessRecord two("");
  EXPECT_EQ(end(one).size(), 16);
  EXPECT_NE(end(one), end(two));
}

TEST_F(RecordedProcesses, ALineThatIsCutNamesNothing) {
  const pid_t pid = Start(kLoop);
  const std::string line = Line(pid);
  End(line.substr(0, line.size() - 1));
  EXPECT_EQ(AliveInTheEnd(mark_, 1), 1);
}

TEST_F(RecordedProcesses, IncludeThoseBelowThem) {
  const pid_t pid =
      Start("(setsid /bin/sh -c \"" + kLoop + "\" sh $1 & wait)& wait");
  ASSERT_GE(AliveInTheEnd(mark_, 3), 3);
  End(Line(pid, 1));
  EXPECT_GE(Alive(mark_), 3);
  End(Line(pid));
  EXPECT_EQ(AliveInTheEnd(mark_, 0), 0);
}

TEST_F(RecordedProcesses, IncludeTheSessionOfALeaderThatHasEnded) {
  const pid_t leader = Start("(" + kLoop + ")& " + kLoop);
  const std::string line = Line(leader);
  ASSERT_EQ(AliveInTheEnd(mark_, 2), 2);
  // While it lives its session is known by its start.
  End(Line(leader, 1));
  EXPECT_EQ(AliveInTheEnd(mark_, 2), 2);
  ::kill(leader, SIGKILL);
  ASSERT_EQ(AliveInTheEnd(mark_, 1), 1);
  // A process that began before the leader is not of its session.
  End(std::to_string(leader) + " " +
      std::to_string(std::stol(line.substr(line.find(' '))) + 1000000) + "\n");
  EXPECT_EQ(AliveInTheEnd(mark_, 1), 1);
  End(line);
  EXPECT_EQ(AliveInTheEnd(mark_, 0), 0);
}

}  // namespace trials::leftovers_test
