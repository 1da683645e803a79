// The paths of the project's files and of its program, for tests.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace fakes {

// The root of the source tree.
[[nodiscard]] std::filesystem::path SourceFolder();

// The program `oppa` of this build.
[[nodiscard]] std::filesystem::path ProgramFile();

// Words that start these words in a folder.
[[nodiscard]] std::vector<std::string> InFolder(
    const std::filesystem::path& folder, const std::vector<std::string>& words);

}  // namespace fakes
