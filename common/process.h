// Runs another program and keeps what it printed.

#ifndef COMMON_PROCESS_H_
#define COMMON_PROCESS_H_

#include <string>
#include <vector>

namespace common {

struct CommandResult {
  int exit_code = 127;  // 127: it could not be started; 128 + n: signal n
  std::string output;   // stdout
  std::string errors;   // stderr
};

// Runs `words` with exactly `environment` ("NAME=value") and waits for its
// end. The program is looked up in this process's PATH. No shell is involved:
// every word arrives as it is. It reads nothing.
[[nodiscard]] CommandResult RunCommand(
    const std::vector<std::string>& words,
    const std::vector<std::string>& environment);

// Pointers into `words`, a null pointer last, as exec(3) and posix_spawn(3)
// expect them. They hold as long as `words` is not changed.
[[nodiscard]] std::vector<char*> Argv(std::vector<std::string>& words);

// This process's environment.
[[nodiscard]] std::vector<std::string> CurrentEnvironment();

}  // namespace common

#endif  // COMMON_PROCESS_H_
