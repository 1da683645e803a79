// The location of the data files that the program itself reads.

#ifndef TRIALS_DATA_FOLDER_H_
#define TRIALS_DATA_FOLDER_H_

#include <filesystem>
#include <string>

#include "common/error.h"

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

}  // namespace trials

#endif  // TRIALS_DATA_FOLDER_H_
