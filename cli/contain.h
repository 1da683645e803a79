// Runs a program as one rank of a trial on another node.

#ifndef CLI_CONTAIN_H_
#define CLI_CONTAIN_H_

#include <string>
#include <vector>

namespace cli {

// Runs a program as a trials::ContainedProcess with the output of this process
// as its own, and ends it when a signal requests that. Returns its exit code,
// 128 + n after signal n.
// Errors: throws std::runtime_error when it cannot be started.
[[nodiscard]] int Contain(const std::vector<std::string>& words);

}  // namespace cli

#endif  // CLI_CONTAIN_H_
