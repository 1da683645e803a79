// What is known of the cost model's coefficients before the first trial.

#ifndef SURROGATES_COST_TYPICAL_VALUES_H_
#define SURROGATES_COST_TYPICAL_VALUES_H_

#include <optional>
#include <string_view>

#include "surrogates/parametric_mean.h"

namespace surrogates {

// A guess of one coefficient of the physical cost model, and how far to trust
// it. Two kinds hold from one training job to another:
//
//   relative  a ratio to the job's size. Of step time the size is C, the GPU
//             seconds that one step computes; the ratio is bytes per FLOP over
//             bandwidth per FLOP/s. Of memory it is M, the bytes of an
//             unsharded replica's state (16 per parameter) in GPUs.
//   absolute  a latency in s, or a share of the GPU's memory. It is what it is
//             for a small model and a large one.
//
// The sizes themselves differ by 10^4 between jobs and are found from the first
// measurements (shared_scale.h).
//
// Source: docs/decisions/0009-typical-values.md derives and checks them.
struct TypicalValue {
  double log_value = 0.0;
  double log_stddev = 1.0;  // > 0
  bool absolute = false;
};

// Of a term of PhysicalTimeTerms by its name; nothing for other terms.
// `sequences` of one step, >= 1.
[[nodiscard]] std::optional<TypicalValue> TypicalTimeCoefficient(
    std::string_view term, double sequences);

// Of a term of PhysicalMemoryTerms by its name; nothing for other terms.
[[nodiscard]] std::optional<TypicalValue> TypicalMemoryCoefficient(
    std::string_view term, double sequences);

// Where M lies: from a twentieth of a GPU to forty of them.
inline constexpr SharedScale kTypicalModelState{0.3, 1.7};

}  // namespace surrogates

#endif  // SURROGATES_COST_TYPICAL_VALUES_H_
