// Converts learned coefficients to bandwidths, latencies and sizes.

#ifndef STUDIES_FITS_PHYSICAL_READING_H_
#define STUDIES_FITS_PHYSICAL_READING_H_

#include <optional>
#include <string>

#include "studies/fits/fitted_run.h"
#include "surrogates/cost/term.h"

namespace studies {

// A coefficient in physical units.
struct Reading {
  Estimate estimate;
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

}  // namespace studies

#endif  // STUDIES_FITS_PHYSICAL_READING_H_
