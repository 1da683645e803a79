// A search whose trials a client runs.

#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>

#include "harness/spec.h"

namespace jobs {

struct ServeOptions {
  std::filesystem::path manifest;
  harness::ManifestOverrides overrides;
  std::filesystem::path results;  // empty: the folder of `oppa tune`
  bool accept_changed = false;
  std::string command;  // the command line of oppa, for records
};

// Reads a request from each line of `in` and writes an answer to a line of
// `out`, after a first line that describes the search: JSON objects
// (docs/schemas/serve.json). The records are those of `oppa run` and `oppa
// tune`. Returns 0 at the end of `in`; a trial that is running then is not
// recorded. A wrong request is answered by an error and changes nothing.
// Errors: as ReadSearch and RunOne, each after an answer with the error.
int Serve(const ServeOptions& options, std::istream& in, std::ostream& out);

}  // namespace jobs
