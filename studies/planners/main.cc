// Measures planners on published profiles.
//
//   planners_study FOLDER PUBLISHED
//
// writes tables below FOLDER; PUBLISHED has aceso_v100_op_profiles.csv,
// aceso_v100_collectives.csv and simumax_operators.csv. docs/tables has
// the tables.

#include <vector>

#include "studies/planners/planners.h"
#include "studies/program.h"

int main(int argc, char** argv) {
  return studies::RunProgram(
      argc == 3, "planners_study FOLDER PUBLISHED",
      [&](const studies::Sink& sink) {
        std::vector<studies::Output> outputs = studies::AcesoSearches(argv[2]);
        for (const studies::Output& output :
             {studies::AcesoLayers(argv[2]), studies::AcesoHeuristics(argv[2]),
              studies::AcesoAccuracy(), studies::AcesoSpace(),
              studies::AstraEfficiency(argv[2]), studies::AstraMoney(),
              studies::AstraHalves(), studies::AstraClusters(),
              studies::AstraScale(), studies::AstraMixed(),
              studies::AstraOffload(), studies::MixedMeasured()}) {
          outputs.push_back(output);
        }
        return studies::Write(argv[1], outputs, sink);
      });
}
