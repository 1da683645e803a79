#include "harness/provenance.h"

#include <array>
#include <filesystem>
#include <optional>
#include <vector>

#include <Eigen/Core>
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trials/text.h"

namespace harness {
namespace {

// The output of git in a folder, nothing if it fails. No shell is involved.
std::optional<std::string> Git(const std::string& folder,
                               const std::vector<std::string>& words) {
  std::vector<std::string> command{"git", "-C", folder};
  command.insert(command.end(), words.begin(), words.end());
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (std::string& word : command) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  std::array<int, 2> pipe_fds{};
  if (::pipe2(pipe_fds.data(), O_CLOEXEC) != 0) {
    return std::nullopt;
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(
      &actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t pid = 0;
  const int error =
      ::posix_spawnp(&pid, "git", &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(pipe_fds[1]);
  std::string output;
  std::array<char, 4096> buffer{};
  for (ssize_t got = 0;
       error == 0 &&
       (got = ::read(pipe_fds[0], buffer.data(), buffer.size())) > 0;) {
    output.append(buffer.data(), static_cast<std::size_t>(got));
  }
  ::close(pipe_fds[0]);
  int status = 1;
  if (error != 0 || ::waitpid(pid, &status, 0) != pid || status != 0) {
    return std::nullopt;
  }
  return output;
}

}  // namespace

std::string Version() {
  return fmt::format("oppa 0.1.0, g++ {}, Eigen {}.{}.{}, fmt {}",
                     __VERSION__,
                     EIGEN_WORLD_VERSION,
                     EIGEN_MAJOR_VERSION,
                     EIGEN_MINOR_VERSION,
                     FMT_VERSION);
}

const Commit& CurrentCommit() {
  static const Commit commit = [] {
    Commit found;
    const std::string folder =
        std::filesystem::path(ProgramPath()).parent_path().string();
    if (const auto hash = Git(folder, {"rev-parse", "HEAD"})) {
      found.hash = trials::Trim(*hash);
      const auto changes =
          Git(folder, {"status", "--porcelain", "--untracked-files=no"});
      found.dirty = changes && !changes->empty();
    }
    return found;
  }();
  return commit;
}

std::string HostName() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string ProgramPath() {
  return std::filesystem::read_symlink("/proc/self/exe").string();
}

}  // namespace harness
