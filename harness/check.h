// Checks that records are what was written.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace harness {

struct CheckSummary {
  int finished = 0;    // runs whose files are those of their seal
  int unfinished = 0;  // runs whose committed trials are complete
  int unsealed = 0;    // finished by a version without seals; rows are intact
  // What resuming would drop, and runs without records, one line each.
  std::vector<std::string> notes;
  std::vector<std::string> damage;  // one line for each damaged run or file
};

// Checks every file below a folder that describes an experiment, a run, a
// search or a submission, and the files of every run. Nothing is changed, and
// runs in progress may go on. Errors: throws InputError if there is no such
// folder.
[[nodiscard]] CheckSummary CheckRecordsBelow(
    const std::filesystem::path& results);

}  // namespace harness
