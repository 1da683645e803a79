#include "trials/table_path.h"

#include <cstdlib>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "common/error.h"
#include "common/files.h"

namespace trials {
namespace {

// The problem with OPPA_DATA, and the remedy.
std::string DataProblem(std::string_view folder) {
  constexpr std::string_view kRemedy =
      "set it to the folder that holds the measured tables: export "
      "OPPA_DATA=/path/to/data";
  std::error_code error;
  if (folder.empty()) {
    return fmt::format(" ({} is not set; {})", kDataVariable, kRemedy);
  }
  if (!std::filesystem::is_directory(folder, error)) {
    return fmt::format(" ({} is '{}', which is no folder; {})", kDataVariable,
                       folder, kRemedy);
  }
  return fmt::format(" ({} is '{}')", kDataVariable, folder);
}

}  // namespace

std::filesystem::path ResolveTablePath(
    const std::string& name, const std::filesystem::path& manifest_folder) {
  const std::filesystem::path path = name;
  if (path.is_absolute()) {
    if (!common::IsFile(path)) {
      throw common::InputError(fmt::format("there is no table {}", name));
    }
    return path;
  }
  const char* variable = std::getenv(kDataVariable);
  const std::string data = variable == nullptr ? "" : variable;
  if (!data.empty() && common::IsFile(data / path)) {
    return data / path;
  }
  if (common::IsFile(manifest_folder / path)) {
    return manifest_folder / path;
  }
  throw common::InputError(
      fmt::format("there is no table {}{} and no {}",
                  data.empty() ? name : (data / path).string(),
                  DataProblem(data), (manifest_folder / path).string()));
}

}  // namespace trials
