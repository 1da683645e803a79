// Studies the cost and the savings of early termination on known functions.
//
//   early_termination_study FOLDER [REPEATS]
//
// writes tables and figures below FOLDER: docs/studies.md lists them.

#include <cstdlib>

#include "studies/early_termination/early_termination.h"

int main(int argc, char** argv) {
  const int repeats = argc > 2 ? std::atoi(argv[2]) : 10;
  return studies::RunProgram(
      argc >= 2 && argc <= 3 && repeats >= 1,
      "early_termination_study FOLDER [REPEATS]",
      [&](const studies::Sink& sink) {
        return studies::Write(
            argv[1],
            {studies::DemonstrateRepeats(),
             studies::CheckTheorems({.repeats = 2 * repeats}),
             studies::CompareRules({.repeats = repeats}, sink)},
            sink);
      });
}
