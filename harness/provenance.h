// Where records come from: program, commit, host.

#ifndef HARNESS_PROVENANCE_H_
#define HARNESS_PROVENANCE_H_

#include <string>

namespace harness {

// The program and what it was built with: "oppa 0.1.0, g++ 12.2.0, ...".
[[nodiscard]] std::string Version();

// The commit that the program was built from, and whether the working tree
// differed from it; "unknown" outside a repository. See commit.cmake.
struct Commit {
  std::string hash = "unknown";
  bool dirty = false;
};
[[nodiscard]] const Commit& BuildCommit();

[[nodiscard]] std::string HostName();

// The path of the running program.
[[nodiscard]] std::string ProgramPath();

}  // namespace harness

#endif  // HARNESS_PROVENANCE_H_
