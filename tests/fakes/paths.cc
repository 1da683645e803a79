#include "tests/fakes/paths.h"

namespace fakes {

std::filesystem::path SourceFolder() { return OPPA_SOURCE_DIR; }

std::filesystem::path ProgramFile() { return OPPA_BINARY; }

std::vector<std::string> InFolder(const std::filesystem::path& folder,
                                  const std::vector<std::string>& words) {
  std::vector<std::string> all = {"sh", "-c", R"(cd "$0" && exec "$@")",
                                  folder.string()};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

}  // namespace fakes
