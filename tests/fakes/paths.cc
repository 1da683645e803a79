#include "tests/fakes/paths.h"

namespace fakes {

std::filesystem::path SourceFolder() { return OPPA_SOURCE_DIR; }

std::filesystem::path ProgramFile() { return OPPA_BINARY; }

}  // namespace fakes
