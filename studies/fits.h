// fits: the fitted surrogates of a run, from its records, and their
// coefficients as bandwidths, latencies and sizes.

#pragma once

#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "common/statistics.h"
#include "plots/table.h"
#include "surrogates/cost/term.h"
#include "trials/record.h"

namespace studies {

// One number by its name in fits.csv: "dp" for length_scale[dp].
struct FittedParameter {
  std::string name;
  common::Estimate estimate;
};

// One surrogate after its last fit.
//
// The interval of a coefficient is the 95% interval of its posterior, if the
// fit provides one (Laplace's approximation; prior_log_stddev[...] in the
// records). The interval of any other number is its range over the last fits.
struct FittedSurrogate {
  std::string name;  // "throughput", "memory"
  std::vector<FittedParameter> length_scales;
  std::vector<FittedParameter> scales;  // of signal, family, nugget, noise
  std::vector<FittedParameter> coefficients;
};

struct FittedRun {
  int trial = 0;  // the trial after the fits; 0: there is none
  std::vector<FittedSurrogate> surrogates;
};

// The fits before the given trial, or the last ones (`trial` 0). Ranges are
// over up to `fits` >= 1 fits. Errors: throws InputError when there is no fit
// before that trial.
[[nodiscard]] FittedRun FittedAt(const std::vector<trials::FitRecord>& records,
                                 int trial = 0, int fits = 5);

// A coefficient in physical units.
struct Reading {
  common::Estimate estimate;
  std::string unit;                // "GB/s", "TFLOP/s", "us", "GB"
  std::optional<double> expected;  // as derived from the model's shape
};

// The meaning of a coefficient: "all-reduce of all gradients within a host". ""
// for an unknown name.
[[nodiscard]] std::string MeaningOf(const FittedSurrogate& surrogate,
                                    const std::string& coefficient);

// The unit of the coefficient itself: "s" or "capacity".
[[nodiscard]] std::string UnitOf(const FittedSurrogate& surrogate);

// The coefficient in physical units where the sizes it needs are known. The
// rows of the cost model (surrogates/cost/) define it:
//
//   compute                6 P tokens / c                TFLOP/s of one GPU
//   data parallel          2 P b / c, a gather P b / c   GB/s
//   tensor parallel        8 L tokens h b / c            GB/s
//                          c / (4 L) per all-reduce      us
//   pipeline               tokens h b / c                GB/s
//   memory                 c capacity                    GB
//
// with P parameters, b bytes per value, L layers, h the hidden size.
//
// Note: these are effective numbers. Communication that overlaps with
// computation costs nothing, so a bandwidth can exceed that of the link.
[[nodiscard]] std::optional<Reading> ReadingOf(
    const FittedSurrogate& surrogate, const FittedParameter& coefficient,
    const surrogates::JobSizes& sizes);

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

// The fitted run as text and as JSON. `note` is a line about missing sizes.
[[nodiscard]] std::string FitsText(const trials::RunInfo& run,
                                   const FittedRun& fitted,
                                   const surrogates::JobSizes& sizes,
                                   const std::string& note);
[[nodiscard]] std::string FitsJson(const trials::RunInfo& run,
                                   const FittedRun& fitted,
                                   const surrogates::JobSizes& sizes,
                                   const std::string& note);

}  // namespace studies
