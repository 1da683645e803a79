// The paths of the project's files and of its program, for tests.

#pragma once

#include <filesystem>

namespace fakes {

// The root of the source tree.
[[nodiscard]] std::filesystem::path SourceFolder();

// The program `oppa` of this build.
[[nodiscard]] std::filesystem::path ProgramFile();

}  // namespace fakes
