// The paths of the project's files and of its program, for tests.

#ifndef TESTS_FAKES_PATHS_H_
#define TESTS_FAKES_PATHS_H_

#include <filesystem>

namespace fakes {

// The root of the source tree.
[[nodiscard]] std::filesystem::path SourceFolder();

// The program `oppa` of this build.
[[nodiscard]] std::filesystem::path ProgramFile();

}  // namespace fakes

#endif  // TESTS_FAKES_PATHS_H_
