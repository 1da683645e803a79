// The studies that are verbs of the program.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "studies/output.h"
#include "trials/tables/row_training.h"

namespace studies {

// noise: shows simulated trials of the problem in the same way as the paper
// shows real ones: step times of a few configurations (Fig. 3), the estimate
// against the threshold of outlier removal (Fig. 10) and against the number of
// steps (Fig. 15).
struct NoiseVerbOptions {
  int trials = 4;
  int steps = 100;
  int seed = 1;
};
[[nodiscard]] int Noise(const StudyOptions& options,
                        const NoiseVerbOptions& noise, const Sink& sink);

// claims: the ledger of the claims that papers make, decided by records and
// tables: claims.{csv,md}, a row per claim and method. The comment at the head
// of experiments/studies/claims.csv describes the format of the file; `results`
// has the evidence.
// Errors: throws InputError "file:line: ..." for a claim that cannot be
// understood, and for evidence that is damaged. Evidence that is missing is a
// verdict.
[[nodiscard]] std::vector<Output> JudgeClaims(
    const std::filesystem::path& path, const std::filesystem::path& results);

// validate: compares the simulator with published measurements.
struct ValidateOptions {
  std::vector<std::string> names;  // of known tables; empty: all of them
  std::filesystem::path table;     // another one; empty: none
  trials::TableOverrides overrides;
  // Instead of comparing: rows of scripts/leave-one-out, from which error bands
  // are written (bands.h).
  std::filesystem::path bands;
  bool no_figures = false;
  bool csv = false;   // rows with predictions instead of numbers
  bool json = false;  // the numbers, one JSON object per line and table
  std::filesystem::path results = "results";
};

// Writes the numbers of each table to the sink and draws
//
//   <results>/validation/<table>/step-time.{pdf,svg,png,csv,gp}
//   <results>/validation/<table>/peak-memory.{...}
//   <results>/validation/<table>/comparison.json  (the numbers)
//
// Returns 0, or 1 if no table was found.
[[nodiscard]] int Validate(const ValidateOptions& options, const Sink& sink);

}  // namespace studies
