// fits: the fitted parameters of a run.

#ifndef STUDIES_FITS_VERB_H_
#define STUDIES_FITS_VERB_H_

#include <filesystem>
#include <iosfwd>
#include <string>

#include "common/error.h"
#include "plots/table.h"
#include "studies/fits/fitted_run.h"
#include "trials/record.h"

namespace studies {

struct FitsVerbOptions {
  std::filesystem::path run_folder;  // results/<experiment>/.../<repeat>
  int trial = 0;                     // as of this trial; 0: the last one
  // Replaces the one that run.json names.
  std::filesystem::path manifest;
  bool json = false;
};

// Writes the fitted parameters of a run to `out`. Sizes for physical units come
// from the run's manifest with the settings of the run; without it coefficients
// are unchanged, with a note. Returns the program's exit code. Errors: throws
// InputError when the folder holds no run or no fits.
[[nodiscard]] int Fits(const FitsVerbOptions& options, std::ostream& out);

// The coefficients of a run in physical units, and its standard deviations, as
// rows of the result page. Empty for a run without fits or whose manifest is
// gone.
[[nodiscard]] plots::Table LearnedNumbers(
    const std::filesystem::path& run_folder);

// The same as text and as JSON. `note` is a line about missing sizes.
[[nodiscard]] std::string FitsText(const trials::RunInfo& run,
                                   const FittedRun& fitted,
                                   const surrogates::JobSizes& sizes,
                                   const std::string& note);
[[nodiscard]] std::string FitsJson(const trials::RunInfo& run,
                                   const FittedRun& fitted,
                                   const surrogates::JobSizes& sizes,
                                   const std::string& note);

}  // namespace studies

#endif  // STUDIES_FITS_VERB_H_
