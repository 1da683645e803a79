#include "trials/programs/supervisor.h"

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/process.h"
#include "tests/fakes/temporary_folder.h"

namespace trials::supervisor_test {

namespace fs = std::filesystem;

// Folders and files take the place of a cgroup, which not every host lets a
// test create. What else a supervisor does is in contained_process_test.cc.
TEST(Supervisor, TheProgramJoinsItsCgroupWhichIsKilledAndRemoved) {
  const fakes::TemporaryFolder folder;
  const fs::path cgroup = folder.path() / "cgroup";
  const fs::path join = folder.path() / "join";
  const fs::path kill = folder.path() / "kill";
  fs::create_directory(cgroup);
  fakes::WriteFile(join, "");
  fakes::WriteFile(kill, "");
  std::vector<std::string> files = {"/bin/sh"};
  std::vector<std::string> words = {"/bin/sh", "-c",
                                    "setsid -f sleep 60; exit 7"};
  std::vector<std::string> environment = {"PATH=/usr/bin:/bin"};
  const auto file_pointers = common::Argv(files);
  const auto word_pointers = common::Argv(words);
  const auto environment_pointers = common::Argv(environment);
  std::array<int, 2> control{-1, -1};
  std::array<int, 2> say{-1, -1};
  ASSERT_EQ(::pipe2(control.data(), O_CLOEXEC), 0);
  ASSERT_EQ(::pipe2(say.data(), O_CLOEXEC), 0);
  const pid_t pid = ::fork();
  if (pid == 0) {
    Supervise({.programs = file_pointers.data(),
               .words = word_pointers.data(),
               .environment = environment_pointers.data(),
               .cgroup = cgroup.c_str(),
               .cgroup_join = join.c_str(),
               .cgroup_kill = kill.c_str(),
               .control = control[0],
               .output = STDOUT_FILENO,
               .errors = STDERR_FILENO,
               .say = say[1]});
  }
  ::close(control[0]);
  ::close(say[1]);
  SupervisorWord word;
  ASSERT_EQ(::read(say[0], &word, sizeof word), ssize_t{sizeof word});
  EXPECT_EQ(word.kind, SupervisorWord::Kind::kEnded);
  EXPECT_EQ(word.value, 7 << 8);
  ASSERT_EQ(::read(say[0], &word, sizeof word), ssize_t{sizeof word});
  EXPECT_EQ(word.kind, SupervisorWord::Kind::kAllGone);
  EXPECT_EQ(word.value, 1);
  ::waitpid(pid, nullptr, 0);
  ::close(control[1]);
  ::close(say[0]);
  EXPECT_EQ(fakes::ReadFile(join), "0");
  EXPECT_EQ(fakes::ReadFile(kill), "1");
  EXPECT_FALSE(fs::exists(cgroup));
}

}  // namespace trials::supervisor_test
