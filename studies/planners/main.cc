// Measures planners on published profiles.
//
//   planners_study FOLDER PUBLISHED
//
// writes tables below FOLDER; PUBLISHED has aceso_v100_op_profiles.csv and
// aceso_v100_collectives.csv. docs/planners.md has the tables.

#include <cstdio>
#include <exception>

#include <fmt/format.h>

#include "studies/output.h"
#include "studies/planners/aceso.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: planners_study FOLDER PUBLISHED\n");
    return 2;
  }
  try {
    return studies::Write(argv[1],
                          {studies::AcesoSearches(argv[2]),
                           studies::AcesoLayers(argv[2]),
                           studies::AcesoHeuristics(argv[2])});
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 2;
  }
}
