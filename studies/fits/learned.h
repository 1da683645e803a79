// What the surrogates of a run have learned, from its records.

#ifndef STUDIES_FITS_LEARNED_H_
#define STUDIES_FITS_LEARNED_H_

#include <string>
#include <vector>

#include "common/error.h"
#include "trials/record.h"

namespace studies {

// A positive number with the interval that is believed to hold it.
struct Estimate {
  double value = trials::kUnknown;
  double low = trials::kUnknown;  // NaN: not known
  double high = trials::kUnknown;
};

// One number by its name in fits.csv: "dp" for length_scale[dp].
struct LearnedValue {
  std::string name;
  Estimate estimate;
};

// One surrogate after its last fit.
//
// The interval of a coefficient is the 95% interval of its posterior, where the
// fit had one (Laplace's approximation; prior_log_stddev[...] in the records).
// That of any other number is its range over the last fits: how much it still
// moves from trial to trial.
struct LearnedSurrogate {
  std::string name;  // "throughput", "memory"
  std::vector<LearnedValue> length_scales;
  std::vector<LearnedValue> scales;  // signal, misfit and noise deviations
  std::vector<LearnedValue> coefficients;
};

struct LearnedRun {
  int trial = 0;  // before which the fits were made; 0: there is none
  std::vector<LearnedSurrogate> surrogates;
};

// The fits before the given trial, or the last ones there are (`trial` 0), and
// for ranges up to `fits` >= 1 earlier ones with them.
// Errors: throws InputError when there is no fit before that trial.
[[nodiscard]] LearnedRun Learned(const std::vector<trials::FitRecord>& records,
                                 int trial = 0,
                                 int fits = 5);

}  // namespace studies

#endif  // STUDIES_FITS_LEARNED_H_
