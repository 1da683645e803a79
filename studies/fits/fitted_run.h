// The fitted surrogates of a run, from its records.

#ifndef STUDIES_FITS_FITTED_RUN_H_
#define STUDIES_FITS_FITTED_RUN_H_

#include <optional>
#include <string>
#include <vector>

#include "common/error.h"
#include "trials/record.h"

namespace studies {

// A positive number and its interval.
struct Estimate {
  double value = trials::kUnknown;
  double low = trials::kUnknown;  // NaN: not known
  double high = trials::kUnknown;
};

// One number by its name in fits.csv: "dp" for length_scale[dp].
struct FittedParameter {
  std::string name;
  Estimate estimate;
};

// One surrogate after its last fit.
//
// The interval of a coefficient is the 95% interval of its posterior, if the
// fit provides one (Laplace's approximation; prior_log_stddev[...] in the
// records). The interval of any other number is its range over the last fits.
struct FittedSurrogate {
  std::string name;  // "throughput", "memory"
  std::vector<FittedParameter> length_scales;
  std::vector<FittedParameter>
      scales;  // signal, family, nugget, noise deviations
  std::vector<FittedParameter> coefficients;
  // Probability of the process with predictions; absent without predictions.
  std::optional<Estimate> trust;
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

}  // namespace studies

#endif  // STUDIES_FITS_FITTED_RUN_H_
