// Studies the cost and the savings of early termination on known functions.
//
//   early_termination_study FOLDER [REPEATS]
//
// writes tables and figures below FOLDER: docs/studies.md lists them.

#include <cstdio>
#include <cstdlib>
#include <exception>

#include <fmt/format.h>

#include "studies/early_termination/comparison.h"
#include "studies/early_termination/demonstration.h"
#include "studies/early_termination/regret.h"
#include "studies/output.h"

int main(int argc, char** argv) {
  const int repeats = argc > 2 ? std::atoi(argv[2]) : 10;
  if (argc < 2 || argc > 3 || repeats < 1) {
    fmt::print(stderr, "usage: early_termination_study FOLDER [REPEATS]\n");
    return 2;
  }
  try {
    return studies::Write(argv[1],
                          {studies::DemonstrateRepeats(),
                           studies::CheckTheorems({.repeats = 2 * repeats}),
                           studies::CompareRules({.repeats = repeats})});
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 2;
  }
}
