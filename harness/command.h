// Runs another program and keeps what it printed.

#ifndef HARNESS_COMMAND_H_
#define HARNESS_COMMAND_H_

#include <string>
#include <vector>

namespace harness {

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

// This process's environment.
[[nodiscard]] std::vector<std::string> CurrentEnvironment();

}  // namespace harness

#endif  // HARNESS_COMMAND_H_
