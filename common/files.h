// Files that are never seen half written.

#ifndef COMMON_FILES_H_
#define COMMON_FILES_H_

#include <filesystem>
#include <string_view>

namespace common {

// A new file of this process beside `path` that holds `text`, to be given that
// name by rename(2) or link(2). Makes the folder.
// Errors: throws std::runtime_error naming the file.
[[nodiscard]] std::filesystem::path PrepareFile(
    const std::filesystem::path& path, std::string_view text);

// Puts `text` in the place of what `path` held.
void ReplaceFile(const std::filesystem::path& path, std::string_view text);

}  // namespace common

#endif  // COMMON_FILES_H_
