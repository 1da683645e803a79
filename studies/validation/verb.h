// validate: compares the simulator with published measurements.

#ifndef STUDIES_VALIDATION_VERB_H_
#define STUDIES_VALIDATION_VERB_H_

#include <filesystem>
#include <string>
#include <vector>

#include "studies/output.h"
#include "studies/validation/measured_table.h"

namespace studies {

struct ValidateOptions {
  std::vector<std::string> names;  // of known tables; empty: all of them
  std::filesystem::path table;     // another one; empty: none
  TableOverrides overrides;
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

#endif  // STUDIES_VALIDATION_VERB_H_
