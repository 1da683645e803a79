#include "trials/data_folder.h"

#include <cstdlib>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "common/error.h"
#include "common/files.h"
#include "common/text.h"

namespace trials {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> NamesIn(const fs::path& folder) {
  std::vector<std::string> names;
  for (const fs::path& path : common::ListFolder(folder)) {
    if (path.extension() == ".toml") {
      names.push_back(path.stem().string());
    }
  }
  return names;
}

// Where the program is, or would be, installed with its data.
fs::path InstalledFolder() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path().parent_path() /
         "share/oppa/experiments";
}

}  // namespace

fs::path ExperimentsFolder() {
  std::error_code error;
  fs::path folder = OPPA_EXPERIMENTS_DIR;
  const char* set = std::getenv(kExperimentsVariable);
  if (set != nullptr && *set != '\0') {
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
  const std::vector<std::string> known = NamesIn(folder);
  throw common::InputError(
      fmt::format("'{}' is not in {}{}; known: {}", name, folder.string(),
                  common::DidYouMean(name, known), fmt::join(known, ", ")));
}

}  // namespace trials
