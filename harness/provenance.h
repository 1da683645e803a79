// The provenance of records: program, commit and host.

#pragma once

#include <string>

namespace harness {

// "oppa 0.1.0".
[[nodiscard]] std::string ProgramVersion();
// The compiler and libraries of the build: "g++ 12.2.0, Eigen 3.4.0, ...".
[[nodiscard]] std::string BuildTools();
// Both, for records.
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
