// Measures planners on published profiles.
//
//   planners_study FOLDER PUBLISHED
//
// writes tables below FOLDER; PUBLISHED has aceso_v100_op_profiles.csv,
// aceso_v100_collectives.csv and simumax_operators.csv. docs/tables has
// the tables.

#include <vector>

#include "studies/planners/planners.h"

int main(int argc, char** argv) {
  return studies::RunProgram(
      argc == 3, "planners_study FOLDER PUBLISHED",
      [&](const studies::Sink& sink) {
        std::vector<studies::Output> outputs = studies::AcesoOutputs(argv[2]);
        for (const std::vector<studies::Output>& others :
             {studies::AstraOutputs(argv[2]), studies::AstraPlanOutputs()}) {
          outputs.insert(outputs.end(), others.begin(), others.end());
        }
        return studies::Write(argv[1], outputs, sink);
      });
}
