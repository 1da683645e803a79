// Passes the input of a fuzz target to code that reads a file.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace fuzz {

// A folder of this process, in memory where that is possible; it is left to
// the operating system at the end.
inline const std::filesystem::path& Folder() {
  static const std::filesystem::path folder = [] {
    std::string name =
        std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : "/tmp";
    name += "/oppa-fuzz-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) {
      std::abort();
    }
    static const std::string kept = name;
    std::atexit([] { std::filesystem::remove_all(kept); });
    return std::filesystem::path(name);
  }();
  return folder;
}

inline void Write(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline std::string_view Text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace fuzz
