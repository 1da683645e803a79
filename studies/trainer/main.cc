// Compares simulated and measured memory of oppa-train.
//
//   trainer_study FOLDER TABLE
//
// writes tables below FOLDER; TABLE is a table of scripts/measure-trainer.

#include <cstdio>
#include <exception>

#include <fmt/format.h>

#include "studies/output.h"
#include "studies/validation/trainer_regions.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: trainer_study FOLDER TABLE\n");
    return 2;
  }
  try {
    return studies::Write(
        argv[1],
        {studies::TrainerMemoryOutput(studies::ReadAnyTable(argv[2], {}))});
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 2;
  }
}
