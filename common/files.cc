#include "common/files.h"

#include <fstream>
#include <stdexcept>

#include <fmt/format.h>
#include <unistd.h>

namespace common {

std::filesystem::path PrepareFile(const std::filesystem::path& path,
                                  std::string_view text) {
  std::filesystem::create_directories(path.parent_path());
  std::filesystem::path temporary =
      path.string() + fmt::format(".{}", ::getpid());
  std::ofstream out(temporary, std::ios::binary);
  out << text << std::flush;
  if (!out) {
    std::error_code none;
    std::filesystem::remove(temporary, none);
    throw std::runtime_error(fmt::format(
        "{}: cannot write (disk full or not writable?)", temporary.string()));
  }
  return temporary;
}

void ReplaceFile(const std::filesystem::path& path, std::string_view text) {
  std::filesystem::rename(PrepareFile(path, text), path);
}

}  // namespace common
