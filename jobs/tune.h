// Finds a faster configuration of a training job: preflight, search, repeated
// measurements of the best, and the command line to use.

#ifndef JOBS_TUNE_H_
#define JOBS_TUNE_H_

#include <filesystem>
#include <string>

#include "common/error.h"

namespace jobs {

struct TuneOptions {
  std::filesystem::path manifest;  // of a search with type = "command"
  std::string command;             // the command line of oppa, for records
  bool accept_changed = false;     // continue records of a changed program
  int finalists = 3;               // measured again at the end; 0: none
};

// The folder of the results of a manifest: oppa-results/NAME next to it, or
// NAME next to it where the manifest is in a folder oppa-results. It does not
// depend on the working directory.
[[nodiscard]] std::filesystem::path TuneFolder(
    const std::filesystem::path& manifest, const std::string& name);

// Runs, or resumes, the whole search and prints its progress to stdout. Returns
// the exit code: 0; 1 if no configuration works or the first three trials fail
// alike; 128 + n after signal n, when the same command resumes.
// Errors: throws InputError for a manifest that is not of one search with a
// program.
[[nodiscard]] int Tune(const TuneOptions& options);

}  // namespace jobs

#endif  // JOBS_TUNE_H_
