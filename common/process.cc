#include "common/process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"

namespace common {
namespace {

// Whether a shell takes the character as it is.
bool IsPlain(char c) {
  constexpr std::string_view kPlain = "_@%+=:,./-";
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || kPlain.find(c) != std::string_view::npos;
}

struct Pipe {
  std::array<int, 2> ends{-1, -1};
  bool ok = ::pipe2(ends.data(), O_CLOEXEC) == 0;
  Pipe() = default;
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    CloseWriter();
    if (ends[0] >= 0) {
      ::close(ends[0]);
    }
  }
  void CloseWriter() {
    if (ends[1] >= 0) {
      ::close(ends[1]);
      ends[1] = -1;
    }
  }
};

// The output of a program, read while it runs.
class Reader {
 public:
  Reader(const Pipe& output, const Pipe& errors, CommandResult& result)
      : waiting_{{{output.ends[0], POLLIN, 0}, {errors.ends[0], POLLIN, 0}}},
        texts_{&result.output, &result.errors} {}

  // Reads what there is, after waiting for it for at most `wait_ms`. False when
  // there was nothing.
  bool Read(int wait_ms) {
    if (::poll(waiting_.data(), waiting_.size(), wait_ms) <= 0) {
      return false;
    }
    for (std::size_t i = 0; i < waiting_.size(); ++i) {
      if (waiting_[i].fd < 0 || waiting_[i].revents == 0) {
        continue;
      }
      const ssize_t got =
          ::read(waiting_[i].fd, buffer_.data(), buffer_.size());
      if (got > 0) {
        texts_[i]->append(buffer_.data(), static_cast<std::size_t>(got));
      } else if (got == 0 || errno != EINTR) {
        waiting_[i].fd = -1;  // poll leaves it alone from now on
        --open_;
      }
    }
    return true;
  }

  [[nodiscard]] bool open() const { return open_ > 0; }

 private:
  std::array<pollfd, 2> waiting_;
  std::array<std::string*, 2> texts_;
  std::array<char, 65536> buffer_{};
  int open_ = 2;
};

int ExitCode(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// Reads until the program ends, or until the time limit, at which its process
// group is killed. Returns the exit code.
int ReadToTheEnd(pid_t child, double limit_s, Reader& reader, bool& timed_out) {
  constexpr int kLookMs = 50;
  const double end_s = SteadySeconds() + limit_s;
  int status = 0;
  while (reader.open()) {
    if (!reader.Read(kLookMs) && ::waitpid(child, &status, WNOHANG) == child) {
      while (reader.open() && reader.Read(0)) {
      }
      return ExitCode(status);
    }
    if (SteadySeconds() > end_s) {
      timed_out = true;
      ::kill(-child, SIGKILL);
      break;
    }
  }
  return WaitFor(child);
}

}  // namespace

pid_t StartProcess(ProcessOptions options) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (!options.folder.empty()) {
    posix_spawn_file_actions_addchdir_np(&actions, options.folder.c_str());
  }
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null",
                                   O_RDONLY, 0);
  if (options.output >= 0) {
    posix_spawn_file_actions_adddup2(&actions, options.output, STDOUT_FILENO);
  }
  if (options.errors >= 0) {
    posix_spawn_file_actions_adddup2(&actions, options.errors, STDERR_FILENO);
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  if (options.own_group) {
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP |
                                              POSIX_SPAWN_SETSIGDEF |
                                              POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setpgroup(&attributes, 0);
    sigset_t signals;
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&attributes, &signals);
    for (const int signal : {SIGINT, SIGTERM, SIGPIPE}) {
      sigaddset(&signals, signal);
    }
    posix_spawnattr_setsigdefault(&attributes, &signals);
  }
  pid_t child = -1;
  const int error = ::posix_spawnp(
      &child, options.words.front().c_str(), &actions, &attributes,
      Argv(options.words).data(), Argv(options.environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  errno = error;
  return error == 0 ? child : -1;
}

int WaitFor(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return ExitCode(status);
}

CommandResult RunCommand(const std::vector<std::string>& words,
                         const std::vector<std::string>& environment,
                         const std::filesystem::path& folder, double limit_s) {
  CommandResult result;
  Pipe output;
  Pipe errors;
  if (!output.ok || !errors.ok) {
    result.errors = fmt::format("cannot make a pipe: {}", strerror(errno));
    return result;
  }
  const pid_t child = StartProcess({.words = words,
                                    .environment = environment,
                                    .folder = folder,
                                    .output = output.ends[1],
                                    .errors = errors.ends[1],
                                    .own_group = std::isfinite(limit_s)});
  const int error = errno;
  output.CloseWriter();
  errors.CloseWriter();
  if (child < 0) {
    result.errors =
        fmt::format("cannot start {}: {}", words.front(), strerror(error));
    return result;
  }
  Reader reader(output, errors, result);
  result.exit_code = ReadToTheEnd(child, limit_s, reader, result.timed_out);
  if (result.timed_out) {
    result.errors += fmt::format("timed out: {} gave no answer within {:g} s",
                                 words.front(), limit_s);
  }
  return result;
}

std::vector<char*> Argv(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) {
    pointers.push_back(word.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

std::string ShellLine(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    line += line.empty() ? "" : " ";
    if (!word.empty() && std::all_of(word.begin(), word.end(), IsPlain)) {
      line += word;
      continue;
    }
    line += '\'';
    for (const char c : word) {
      line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    }
    line += '\'';
  }
  return line;
}

std::vector<std::string> CurrentEnvironment() {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    environment.emplace_back(*entry);
  }
  return environment;
}

}  // namespace common
