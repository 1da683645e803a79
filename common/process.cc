#include "common/process.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/files.h"
#include "common/text.h"

namespace common {
namespace {

// Whether a shell takes the character as it is.
bool IsPlain(char c) {
  constexpr std::string_view kPlain = "_@%+=:,./-";
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || kPlain.find(c) != std::string_view::npos;
}

off_t SizeOf(const Descriptor& file) {
  struct stat info {};
  return ::fstat(file.get(), &info) == 0 ? info.st_size : 0;
}

// Waits for the end of a child, or until `why_end` returns a reason to kill its
// process group. Returns the exit code.
int WaitUntil(pid_t child, const std::function<std::string()>& why_end,
              CommandResult& result) {
  constexpr std::chrono::milliseconds kLookInterval(5);
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    result.errors = why_end();
    if (!result.errors.empty()) {
      result.cut_off = true;
      ::kill(-child, SIGKILL);
      return WaitFor(child);
    }
    std::this_thread::sleep_for(kLookInterval);
  }
  return ExitCode(status);
}

std::string Content(const Descriptor& file) {
  return ReadProcFile(fmt::format("/proc/self/fd/{}", file.get()));
}

namespace fs = std::filesystem;

}  // namespace

int ExitCode(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

pid_t StartProcess(ProcessOptions options) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (options.input >= 0) {
    posix_spawn_file_actions_adddup2(&actions, options.input, STDIN_FILENO);
  } else {
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null",
                                     O_RDONLY, 0);
  }
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
                         double limit_s, const std::function<bool()>& stop) {
  CommandResult result;
  // Files in memory, not pipes, which descendants of the program keep open.
  const Descriptor output(::memfd_create("output", MFD_CLOEXEC));
  const Descriptor errors(::memfd_create("errors", MFD_CLOEXEC));
  if (!output.ok() || !errors.ok()) {
    result.errors =
        fmt::format("cannot make a file in memory: {}", strerror(errno));
    return result;
  }
  const bool limited = std::isfinite(limit_s);
  const pid_t child = StartProcess({.words = words,
                                    .environment = environment,
                                    .output = output.get(),
                                    .errors = errors.get(),
                                    .own_group = limited});
  if (child < 0) {
    result.errors =
        fmt::format("cannot start {}: {}", words.front(), strerror(errno));
    return result;
  }
  const auto why_end = [&, end_s = SteadySeconds() + limit_s] {
    constexpr off_t kMostOutput = 64 << 20;
    return SteadySeconds() > end_s
               ? fmt::format("timed out: {} gave no answer within {:g} s",
                             words.front(), limit_s)
           : stop && stop() ? fmt::format("{} was interrupted", words.front())
           : SizeOf(output) + SizeOf(errors) > kMostOutput
               ? fmt::format("{} printed too much", words.front())
               : std::string();
  };
  result.exit_code =
      limited ? WaitUntil(child, why_end, result) : WaitFor(child);
  result.output = Content(output);
  result.errors = Content(errors) + result.errors;
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

std::vector<std::string> InFolder(const std::string& folder,
                                  const std::vector<std::string>& words) {
  std::vector<std::string> all = {"sh", "-c", R"(cd -- "$0" && exec "$@")",
                                  folder};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

std::string ShellLine(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    line += line.empty() ? "" : " ";
    if (!word.empty() && std::ranges::all_of(word, IsPlain)) {
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

std::string EnvironmentValue(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::vector<std::string> CurrentEnvironment() {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    environment.emplace_back(*entry);
  }
  return environment;
}

std::string ProcessSpace() {
  std::error_code none;
  const fs::path space = fs::read_symlink("/proc/self/ns/pid", none);
  return std::string(Trim(ReadProcFile("/proc/sys/kernel/random/boot_id"))) +
         " " + space.string();
}

std::optional<ProcessEntry> FindProcess(pid_t pid) {
  const std::string stat =
      ReadProcFile(fs::path("/proc") / std::to_string(pid) / "stat");
  const std::size_t after_name = stat.rfind(')');
  if (after_name == std::string::npos || after_name + 2 > stat.size()) {
    return std::nullopt;
  }
  const std::string after = stat.substr(after_name + 2);
  const auto cells = Split(after, ' ');
  // proc(5), counted from the state, which is field 3.
  constexpr std::size_t kState = 0;
  constexpr std::size_t kParent = 1;
  constexpr std::size_t kSession = 3;
  constexpr std::size_t kStart = 19;
  if (cells.size() <= kStart || cells[kState] == "Z" || cells[kState] == "X") {
    return std::nullopt;
  }
  return ProcessEntry{.parent = ParseInt(cells[kParent]).value_or(0),
                      .session = ParseInt(cells[kSession]).value_or(0),
                      .start = std::string(cells[kStart])};
}

std::map<pid_t, ProcessEntry> ListProcesses() {
  std::map<pid_t, ProcessEntry> processes;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator("/proc", none)) {
    const auto pid = ParseInt(entry.path().filename().string());
    if (!pid) {
      continue;
    }
    if (auto process = FindProcess(*pid)) {
      processes.emplace(*pid, *std::move(process));
    }
  }
  return processes;
}

}  // namespace common
