// Where tables of measured configurations are found.

#ifndef TRIALS_TABLE_PATH_H_
#define TRIALS_TABLE_PATH_H_

#include <filesystem>
#include <string>

#include "common/error.h"

namespace trials {

// The environment variable that names the folder of measured tables. They are
// not part of the project: their publishers keep them.
inline constexpr const char* kDataVariable = "OPPA_DATA";

// The path of a table that a manifest names: an absolute name as it is, a
// relative one in the folder named by OPPA_DATA, then in the manifest's.
// Errors: throws InputError naming the places looked at and, where OPPA_DATA
// is unset or no folder, how to set it.
[[nodiscard]] std::filesystem::path ResolveTablePath(
    const std::string& name, const std::filesystem::path& manifest_folder);

}  // namespace trials

#endif  // TRIALS_TABLE_PATH_H_
