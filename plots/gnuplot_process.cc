#include "plots/gnuplot_process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace plots {
namespace {

constexpr std::string_view kRemedy =
    "install it (Debian, Ubuntu: apt-get install gnuplot-nox), then run the "
    "report again; the scripts (*.gp) and their data are written";

// What a process wrote until it closed the pipe.
std::string ReadToEnd(int descriptor) {
  std::string text;
  std::array<char, 4096> buffer{};
  while (true) {
    const ssize_t n = read(descriptor, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0) {
      return text;
    }
    text.append(buffer.data(), static_cast<std::size_t>(n));
  }
}

// The first line of gnuplot's output that says something: it repeats the
// command, marks the place with a caret, and then names file and line.
std::string FirstError(const std::string& output) {
  const std::size_t at = output.find(" line ");
  if (at == std::string::npos) {
    return output.substr(0, output.find('\n'));
  }
  const std::size_t newline = output.rfind('\n', at);
  const std::size_t begin = newline == std::string::npos ? 0 : newline + 1;
  return output.substr(begin, output.find('\n', at) - begin);
}

// Starts the process with its errors going to `error_pipe`; returns errno.
int Spawn(const GnuplotJob& job,
          const std::string& program,
          const std::array<int, 2>& error_pipe,
          pid_t& pid) {
  std::vector<std::string> words = {program};
  words.insert(words.end(), job.scripts.begin(), job.scripts.end());
  std::vector<char*> arguments;
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addchdir_np(&actions, job.folder.c_str());
  posix_spawn_file_actions_addopen(
      &actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, error_pipe[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, error_pipe[1], STDERR_FILENO);
  const int error = posix_spawnp(
      &pid, program.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

std::string RunOne(const GnuplotJob& job, const std::string& program) {
  std::array<int, 2> error_pipe{};
  if (pipe2(error_pipe.data(), O_CLOEXEC) != 0) {
    return fmt::format("cannot start {}: {}", program, std::strerror(errno));
  }
  pid_t pid = 0;
  const int error = Spawn(job, program, error_pipe, pid);
  close(error_pipe[1]);
  if (error != 0) {
    close(error_pipe[0]);
    return fmt::format("no pictures: cannot start '{}' ({}): {}",
                       program,
                       std::strerror(error),
                       kRemedy);
  }
  const std::string output = ReadToEnd(error_pipe[0]);
  close(error_pipe[0]);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    return "";
  }
  return fmt::format("{} failed in {}: {}; run it there by hand to see more",
                     program,
                     job.folder.string(),
                     FirstError(output));
}

}  // namespace

std::string RunGnuplot(const std::vector<GnuplotJob>& jobs,
                       const std::string& program) {
  std::vector<std::string> errors(jobs.size());
  const std::size_t workers = std::min<std::size_t>(
      std::max(1U, std::thread::hardware_concurrency()), jobs.size());
  std::vector<std::jthread> threads;
  for (std::size_t w = 0; w < workers; ++w) {
    threads.emplace_back([&, w] {
      for (std::size_t i = w; i < jobs.size(); i += workers) {
        errors[i] = RunOne(jobs[i], program);
      }
    });
  }
  threads.clear();  // joins
  const auto first = std::find_if(
      errors.begin(), errors.end(), [](const auto& e) { return !e.empty(); });
  return first == errors.end() ? "" : *first;
}

}  // namespace plots
