// The location of tables of measured configurations.

#ifndef TRIALS_TABLE_PATH_H_
#define TRIALS_TABLE_PATH_H_

#include <filesystem>
#include <string>

#include "common/error.h"

namespace trials {

// The environment variable that names the folder of measured tables. They are
// not part of the project; their publishers distribute them.
inline constexpr const char* kDataVariable = "OPPA_DATA";

// The path of a table that a manifest names: an absolute name is used
// unchanged; a relative one is searched in the folder named by OPPA_DATA, then
// in the manifest's.
// Errors: throws InputError naming the places that were searched and, if
// OPPA_DATA is unset or is not a folder, how to set it.
[[nodiscard]] std::filesystem::path ResolveTablePath(
    const std::string& name, const std::filesystem::path& manifest_folder);

}  // namespace trials

#endif  // TRIALS_TABLE_PATH_H_
