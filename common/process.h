// Other programs: how they are started, and the processes of this host as
// listed in /proc.

#pragma once

#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace common {

// How a program is started. No shell is involved: every word is passed
// unchanged.
struct ProcessOptions {
  std::vector<std::string> words;        // the program, looked up in PATH
  std::vector<std::string> environment;  // "NAME=value"
  int input = -1;          // descriptor of its stdin; -1: /dev/null
  int output = -1;         // of its stdout; -1: that of this process
  int errors = -1;         // of its stderr
  bool own_group = false;  // its own process group, default signal handling
};

// The exit code of a process with this status (waitpid(2)); 128 + n after
// signal n.
[[nodiscard]] int ExitCode(int status);

// Starts a program. Returns its process id, or -1 with the reason in errno.
[[nodiscard]] pid_t StartProcess(ProcessOptions options);

// Waits for the end of a child: its exit code, or 128 + n after signal n.
[[nodiscard]] int WaitFor(pid_t child);

struct CommandResult {
  int exit_code = 127;   // 127: it could not be started; 128 + n: signal n
  bool cut_off = false;  // killed at a limit; `errors` ends with the reason
  std::string output;    // stdout
  std::string errors;    // stderr
};

// Runs a program to its end and keeps what it printed. Descendants that outlive
// it are not waited for. With a time limit, the program is in a process group
// of its own, which is killed at the limit, when it has printed 64 MiB, and
// when `stop` returns true.
[[nodiscard]] CommandResult RunCommand(
    const std::vector<std::string>& words,
    const std::vector<std::string>& environment,
    double limit_s = std::numeric_limits<double>::infinity(),
    const std::function<bool()>& stop = {});

// Words that start these words in a folder. A shell changes into it; the words
// are passed unchanged.
[[nodiscard]] std::vector<std::string> InFolder(
    const std::string& folder, const std::vector<std::string>& words);

// Pointers into `words`, a null pointer last, as exec(3) and posix_spawn(3)
// expect them. They are valid as long as `words` is not changed.
[[nodiscard]] std::vector<char*> Argv(std::vector<std::string>& words);

// The words as a line that a POSIX shell splits into the same words.
[[nodiscard]] std::string ShellLine(const std::vector<std::string>& words);

// The value of a variable; "" if it is not set.
[[nodiscard]] std::string EnvironmentValue(const char* name);

// This process's environment.
[[nodiscard]] std::vector<std::string> CurrentEnvironment();

// A process id is reused after the end of its process; with the time of the
// start, it is unique in a ProcessSpace().
struct ProcessEntry {
  pid_t parent = 0;
  pid_t session = 0;
  std::string start;  // in clock ticks since the boot
};

// Where a process id means one process: a PID namespace of a boot. Containers
// of one host may have namespaces of their own.
[[nodiscard]] std::string ProcessSpace();

// Nothing for a process that does not exist or has ended (a zombie).
[[nodiscard]] std::optional<ProcessEntry> FindProcess(pid_t pid);

// All processes that have not ended.
[[nodiscard]] std::map<pid_t, ProcessEntry> ListProcesses();

}  // namespace common
