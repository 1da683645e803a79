#include "trials/programs/supervisor.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <map>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/files.h"
#include "common/process.h"
#include "tests/fakes/temporary_folder.h"

namespace trials::supervisor_test {

namespace fs = std::filesystem;
using Kind = SupervisorWord::Kind;

// A supervisor without a cgroup, which would find every process by itself,
// unless a test sets one.
class SupervisorTest : public testing::Test {
 protected:
  // `files`: what may be the program.
  void Start(std::vector<std::string> files, std::vector<std::string> words,
             const char* folder = nullptr) {
    ASSERT_EQ(::pipe2(control_.data(), O_CLOEXEC), 0);
    ASSERT_EQ(::pipe2(output_.data(), O_CLOEXEC), 0);
    ASSERT_EQ(::pipe2(say_.data(), O_CLOEXEC), 0);
    std::vector<std::string> environment = {"PATH=/usr/bin:/bin"};
    const auto file_pointers = common::Argv(files);
    const auto word_pointers = common::Argv(words);
    const auto environment_pointers = common::Argv(environment);
    pid_ = ::fork();
    if (pid_ == 0) {
      Supervise({.programs = file_pointers.data(),
                 .words = word_pointers.data(),
                 .environment = environment_pointers.data(),
                 .folder = folder,
                 .cgroup = cgroup_.empty() ? nullptr : cgroup_.c_str(),
                 .cgroup_join = cgroup_join_.c_str(),
                 .cgroup_kill = cgroup_kill_.c_str(),
                 .patience_s = 0.2,
                 .control = control_[0],
                 .output = output_[1],
                 .errors = output_[1],
                 .say = say_[1]});
    }
    ::close(control_[0]);
    ::close(output_[1]);
    ::close(say_[1]);
  }

  void StartShell(const std::string& script) {
    Start({"/bin/sh"}, {"/bin/sh", "-c", script, "sh", mark_});
  }

  // A byte of output, or 0 at its end.
  [[nodiscard]] char ReadByte() const {
    char byte = 0;
    return ::read(output_[0], &byte, 1) == 1 ? byte : '\0';
  }

  // The words until the supervisor ends, and how it ends.
  [[nodiscard]] std::vector<std::pair<Kind, int>> Words() {
    std::vector<std::pair<Kind, int>> words;
    SupervisorWord word;
    while (::read(say_[0], &word, sizeof word) == sizeof word) {
      words.emplace_back(word.kind, word.value);
    }
    ::waitpid(pid_, &status_, 0);
    return words;
  }

  [[nodiscard]] int Alive() const {
    int count = 0;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      count += common::ReadProcFile(entry.path() / "cmdline").find(mark_) !=
                       std::string::npos
                   ? 1
                   : 0;
    }
    return count;
  }

  // The descriptors of the supervisor.
  [[nodiscard]] std::map<int, std::string> OpenFiles() const {
    std::map<int, std::string> open;
    std::error_code none;
    for (const auto& entry :
         fs::directory_iterator("/proc/" + std::to_string(pid_) + "/fd")) {
      open[std::stoi(entry.path().filename())] =
          fs::read_symlink(entry.path(), none);
    }
    return open;
  }

  ~SupervisorTest() override {
    for (const int fd : {control_[1], output_[0], say_[0]}) {
      ::close(fd);
    }
  }

  std::array<int, 2> control_{-1, -1};
  std::array<int, 2> output_{-1, -1};
  std::array<int, 2> say_{-1, -1};
  pid_t pid_ = 0;
  int status_ = -1;
  std::string mark_ = "oppa-supervised-" + std::to_string(::getpid());
  std::string cgroup_;
  std::string cgroup_join_;
  std::string cgroup_kill_;
};

constexpr auto kEnded = [](int status) {
  return std::pair{Kind::kEnded, status};
};
constexpr std::pair kAllGone{Kind::kAllGone, 1};

// A process that no signal but SIGKILL ends, in a session of its own.
const std::string kStray =
    "setsid -f /bin/sh -c 'trap \"\" TERM HUP INT; echo s; "
    "while :; do sleep 0.05; done' \"$1\"; ";

TEST_F(SupervisorTest, SaysHowTheProgramEndedAndThatNothingIsLeft) {
  StartShell("exit 7");
  EXPECT_THAT(Words(), testing::ElementsAre(kEnded(7 << 8), kAllGone));
  EXPECT_EQ(status_, 0);
}

TEST_F(SupervisorTest, KillsEveryProcessThatTheProgramLeaves) {
  StartShell(kStray + kStray + kStray + "exit 0");
  EXPECT_THAT(Words(), testing::ElementsAre(kEnded(0), kAllGone));
  EXPECT_EQ(Alive(), 0);
}

TEST_F(SupervisorTest, EndsTheProgramWhenItsControlIsClosed) {
  StartShell("echo u; exec sleep 60");
  EXPECT_EQ(ReadByte(), 'u');
  ::close(control_[1]);
  control_[1] = -1;
  EXPECT_THAT(Words(), testing::ElementsAre(kEnded(SIGTERM), kAllGone));
}

TEST_F(SupervisorTest, KillsTheProgramAfterThePatience) {
  StartShell(kStray + "trap '' TERM; echo u; while :; do sleep 0.02; done");
  std::string said{ReadByte(), ReadByte()};
  while (said.find('u') == std::string::npos ||
         said.find('s') == std::string::npos) {
    said += ReadByte();
  }
  ::close(control_[1]);
  control_[1] = -1;
  EXPECT_THAT(Words(), testing::ElementsAre(kEnded(SIGKILL), kAllGone));
  EXPECT_EQ(Alive(), 0);
}

// Folders and files take the place of a cgroup.
TEST_F(SupervisorTest, TheProgramJoinsItsCgroupWhichIsKilledAndRemoved) {
  const fakes::TemporaryFolder folder;
  const fs::path cgroup = folder.path() / "cgroup";
  cgroup_join_ = folder.path() / "join";
  cgroup_kill_ = folder.path() / "kill";
  for (const bool has_cgroup : {false, true}) {
    fs::create_directory(cgroup);
    fakes::WriteFile(cgroup_join_, "");
    fakes::WriteFile(cgroup_kill_, "");
    cgroup_ = has_cgroup ? cgroup.string() : "";
    StartShell(kStray + "exit 0");
    EXPECT_THAT(Words(), testing::ElementsAre(kEnded(0), kAllGone));
    EXPECT_EQ(fakes::ReadFile(cgroup_join_), has_cgroup ? "0" : "");
    EXPECT_EQ(fakes::ReadFile(cgroup_kill_), has_cgroup ? "1" : "");
    EXPECT_EQ(fs::exists(cgroup), !has_cgroup);
    for (const int fd : {control_[1], output_[0], say_[0]}) {
      ::close(fd);
    }
  }
  control_[1] = output_[0] = say_[0] = -1;
}

TEST_F(SupervisorTest, SaysWhyTheProgramDoesNotStart) {
  Start({"/nowhere/a", "/etc/passwd/a", "/nowhere/b"}, {"a"});
  EXPECT_THAT(Words(),
              testing::ElementsAre(std::pair{Kind::kStartError, ENOENT},
                                   kEnded(127 << 8), kAllGone));
}

TEST_F(SupervisorTest, AFileThatIsNotExecutableIsTheReasonUnlessAnotherIsRun) {
  Start({"/nowhere/a", "/etc/passwd", "/nowhere/b"}, {"a"});
  EXPECT_THAT(Words(), testing::Contains(std::pair{Kind::kStartError, EACCES}));
}

TEST_F(SupervisorTest, TheFirstFileThatCanBeExecutedIsTheProgram) {
  Start({"/nowhere/a", "/etc/passwd", "/etc/passwd/a", "/bin/sh", "/bin/false"},
        {"a", "-c", "exit 3"});
  EXPECT_THAT(Words(), testing::ElementsAre(kEnded(3 << 8), kAllGone));
}

TEST_F(SupervisorTest, AFolderThatIsNotThereIsTheReason) {
  Start({"/bin/sh"}, {"sh", "-c", "exit 0"}, "/etc/passwd");
  EXPECT_THAT(Words(),
              testing::Contains(std::pair{Kind::kStartError, ENOTDIR}));
}

TEST_F(SupervisorTest, HoldsNoDescriptorButItsOwn) {
  std::vector<int> more;
  for (const int least : {3, 3, 3, 100, 101, 1000, 70000}) {
    more.push_back(::fcntl(STDERR_FILENO, F_DUPFD, least));
  }
  StartShell("echo u; exec sleep 60");
  EXPECT_EQ(ReadByte(), 'u');
  // The supervisor closes the others while the program starts.
  std::map<int, std::string> open = OpenFiles();
  for (int wait = 0; wait < 500 && open.size() != 6; ++wait) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    open = OpenFiles();
  }
  EXPECT_EQ(open.size(), 6U);
  for (const int fd : {0, 1, 2}) {
    EXPECT_EQ(open[fd], "/dev/null");
  }
  EXPECT_TRUE(open.contains(control_[0]) && open.contains(say_[1]));
  EXPECT_EQ(std::count_if(open.begin(), open.end(),
                          [](const auto& each) {
                            return each.second == "anon_inode:[signalfd]";
                          }),
            1);
  for (const int fd : more) {
    EXPECT_FALSE(open.contains(fd)) << fd;
    ::close(fd);
  }
  ::close(control_[1]);
  control_[1] = -1;
  (void)Words();
}

}  // namespace trials::supervisor_test
