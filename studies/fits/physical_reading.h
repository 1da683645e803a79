// Learned coefficients as bandwidths, latencies and sizes.

#ifndef STUDIES_FITS_PHYSICAL_READING_H_
#define STUDIES_FITS_PHYSICAL_READING_H_

#include <optional>
#include <string>

#include "studies/fits/learned.h"

namespace studies {

// What is known of a problem besides its records. 0: not known.
struct KnownSizes {
  double capacity_bytes = 0.0;  // memory of a GPU
  double parameters = 0.0;
  double bytes_per_value = 0.0;  // of parameters and activations in compute
  double layers = 0.0;
  double hidden_size = 0.0;
  double tokens = 0.0;  // of a step, over all ranks
};

// A number that a person can judge, made from a coefficient.
struct Reading {
  Estimate estimate;
  std::string unit;                // "GB/s", "TFLOP/s", "us", "GB"
  std::optional<double> expected;  // of the same, where the model tells
};

// What a coefficient stands for, in words: "all-reduce of all gradients within
// a host". "" for a name that is not known here.
[[nodiscard]] std::string MeaningOf(const LearnedSurrogate& surrogate,
                                    const std::string& coefficient);

// The unit of the coefficient itself: "s" or "capacity".
[[nodiscard]] std::string UnitOf(const LearnedSurrogate& surrogate);

// The coefficient in physical units, as far as `sizes` are known:
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
// Note: these are effective numbers. What overlaps with computation costs
// nothing, so a bandwidth may be above that of the link.
[[nodiscard]] std::optional<Reading> ReadingOf(
    const LearnedSurrogate& surrogate,
    const LearnedValue& coefficient,
    const KnownSizes& sizes);

}  // namespace studies

#endif  // STUDIES_FITS_PHYSICAL_READING_H_
