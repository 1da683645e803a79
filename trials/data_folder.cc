#include "trials/data_folder.h"

#include <system_error>

#include <fmt/format.h>

#include "common/files.h"
#include "common/process.h"
#include "common/text.h"

namespace trials {
namespace {

namespace fs = std::filesystem;

// Where the program is, or would be, installed with its data.
fs::path InstalledFolder() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path().parent_path() /
         "share/oppa/experiments";
}

// The problem with OPPA_DATA, and the remedy.
std::string DataProblem(std::string_view folder) {
  constexpr std::string_view kRemedy =
      "set it to the folder that holds the measured tables: export "
      "OPPA_DATA=/path/to/data";
  std::error_code error;
  if (folder.empty()) {
    return fmt::format(" ({} is not set; {})", kDataVariable, kRemedy);
  }
  if (!fs::is_directory(folder, error)) {
    return fmt::format(" ({} is '{}', which is no folder; {})", kDataVariable,
                       folder, kRemedy);
  }
  return fmt::format(" ({} is '{}')", kDataVariable, folder);
}

}  // namespace

fs::path ExperimentsFolder() {
  std::error_code error;
  fs::path folder = OPPA_EXPERIMENTS_DIR;
  const std::string set = common::EnvironmentValue(kExperimentsVariable);
  if (!set.empty()) {
    folder = set;
  } else if (const fs::path installed = InstalledFolder();
             fs::is_directory(installed, error)) {
    folder = installed;
  }
  if (!fs::is_directory(folder, error)) {
    throw common::InputError(
        fmt::format("{}: no such folder; set {} to the folder experiments/ of "
                    "the project",
                    folder.string(), kExperimentsVariable));
  }
  return folder;
}

fs::path FindDataFile(const std::string& kind, const std::string& name,
                      const fs::path& from) {
  std::error_code error;
  if (name.ends_with(".toml")) {
    const fs::path file = from / name;
    if (!common::IsFile(file)) {
      throw common::InputError(fmt::format("{}: no such file", file.string()));
    }
    return file;
  }
  const fs::path folder = ExperimentsFolder() / kind;
  const fs::path file = folder / (name + ".toml");
  if (name.find('/') == std::string::npos && common::IsFile(file)) {
    return file;
  }
  const std::vector<std::string> known = DataFileNames(kind);
  throw common::InputError(
      fmt::format("'{}' is not in {}{}; known: {}", name, folder.string(),
                  common::DidYouMean(name, known), fmt::join(known, ", ")));
}

fs::path FindDataFile(const std::string& kind, const common::TomlTable& table,
                      std::string_view key) {
  return table.At(key, [&] {
    return FindDataFile(kind, table.RequireString(key), table.Folder());
  });
}

std::vector<std::string> DataFileNames(const std::string& kind) {
  std::vector<std::string> names;
  for (const fs::path& path : common::ListFolder(ExperimentsFolder() / kind)) {
    if (path.extension() == ".toml") {
      names.push_back(path.stem().string());
    }
  }
  return names;
}

fs::path ResolveTablePath(const std::string& name,
                          const fs::path& manifest_folder) {
  const fs::path path = name;
  if (path.is_absolute()) {
    if (!common::IsFile(path)) {
      throw common::InputError(fmt::format("there is no table {}", name));
    }
    return path;
  }
  const std::string data = common::EnvironmentValue(kDataVariable);
  if (!data.empty() && common::IsFile(data / path)) {
    return data / path;
  }
  if (common::IsFile(manifest_folder / path)) {
    return manifest_folder / path;
  }
  if (common::IsFile(ExperimentsFolder() / path)) {
    return ExperimentsFolder() / path;
  }
  throw common::InputError(
      fmt::format("there is no table {}{} and no {}",
                  data.empty() ? name : (data / path).string(),
                  DataProblem(data), (manifest_folder / path).string()));
}

}  // namespace trials
