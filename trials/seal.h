// Seals: what the files of a run contained when it finished.

#ifndef TRIALS_SEAL_H_
#define TRIALS_SEAL_H_

#include <filesystem>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/fields.h"

namespace trials {

struct RunInfo;

// One file of a finished run. A file that is not in the seal did not exist.
struct SealedFile {
  std::string name;  // "trials.csv"
  int rows = 0;
  std::string hash;  // of its content
};

void VisitFields(common::FieldsOf<SealedFile> auto& file, const auto& visit) {
  visit("name", file.name);
  visit("rows", file.rows);
  visit("hash", file.hash);
}

// The seal of the files that a run's folder contains now. Every row is read,
// so that a damaged file is not sealed.
// Errors: throws InputError for a file that cannot be read or is damaged.
[[nodiscard]] std::vector<SealedFile> SealFiles(
    const std::filesystem::path& run_folder);

// Checks that a folder holds the run that its run.json describes: problem,
// method and repeat are those of its path, and the files of a finished run are
// those of its seal. Runs that an earlier version finished have no seal, and
// nothing is known about their files.
// Errors: throws InputError with the file, what is wrong and the remedy.
void RequireWhole(const std::filesystem::path& run_folder, const RunInfo& info);

}  // namespace trials

#endif  // TRIALS_SEAL_H_
