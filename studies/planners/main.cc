// Measures planners on published profiles.
//
//   planners_study FOLDER PUBLISHED
//
// writes tables below FOLDER; PUBLISHED has aceso_v100_op_profiles.csv,
// aceso_v100_collectives.csv and simumax_operators.csv. docs/planners.md has
// the tables.

#include <cstdio>
#include <exception>

#include <fmt/format.h>

#include "studies/output.h"
#include "studies/planners/aceso.h"
#include "studies/planners/astra.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: planners_study FOLDER PUBLISHED\n");
    return 2;
  }
  try {
    return studies::Write(
        argv[1],
        {studies::AcesoSearches(argv[2]), studies::AcesoLayers(argv[2]),
         studies::AcesoHeuristics(argv[2]), studies::AstraEfficiency(argv[2]),
         studies::AstraMoney(), studies::AstraHalves(),
         studies::AstraClusters(), studies::AstraOffload()});
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 2;
  }
}
