// The location of data files: those of the program, and measured tables.

#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "common/toml_table.h"

namespace trials {

// The environment variable that overrides the folder.
inline constexpr const char* kExperimentsVariable = "OPPA_EXPERIMENTS";

// The folder with clusters/, frameworks/, hardware/, validation/ and
// workloads/: the one that the variable names, else that of the installation
// (../share/oppa/experiments from the program), else experiments/ of the
// sources that the program was built from.
// Errors: throws InputError if it is not a folder.
[[nodiscard]] std::filesystem::path ExperimentsFolder();

// The file that a name refers to: "ampere_ga100" is
// <folder>/<kind>/ampere_ga100.toml; a name that ends in .toml is a path,
// relative to `from`.
// Errors: throws InputError for an unknown name, listing the known ones.
[[nodiscard]] std::filesystem::path FindDataFile(
    const std::string& kind, const std::string& name,
    const std::filesystem::path& from = {});

// Finds the file that the value of a key names, whose place errors have.
[[nodiscard]] std::filesystem::path FindDataFile(const std::string& kind,
                                                 const common::TomlTable& table,
                                                 std::string_view key);

// What `read` makes of the file of a kind with that name, for as long as the
// program runs; the file is read once. A type is that of one kind.
// Errors: as FindDataFile and `read`.
template <typename T>
[[nodiscard]] const T& ReadDataFileOnce(
    const std::string& kind, std::string_view name,
    T (*read)(const std::filesystem::path& file)) {
  static std::mutex mutex;
  static std::map<std::string, T, std::less<>> known;
  const std::lock_guard<std::mutex> lock(mutex);
  auto found = known.find(name);
  if (found == known.end()) {
    const std::string key(name);
    found = known.emplace(key, read(FindDataFile(kind, key))).first;
  }
  return found->second;
}

// The names of the files of a kind, <folder>/<kind>/*.toml, sorted.
[[nodiscard]] std::vector<std::string> DataFileNames(const std::string& kind);

// The environment variable that names the folder of measured tables. Most are
// not part of the project; their publishers distribute them (`oppa data`).
inline constexpr const char* kDataVariable = "OPPA_DATA";

// The path of a table that a manifest names: an absolute name is used
// unchanged; a relative one is searched in the folder named by OPPA_DATA, then
// in the manifest's, then in ExperimentsFolder().
// Errors: throws InputError naming the places that were searched and, if
// OPPA_DATA is unset or is not a folder, how to set it.
[[nodiscard]] std::filesystem::path ResolveTablePath(
    const std::string& name, const std::filesystem::path& manifest_folder);

}  // namespace trials
