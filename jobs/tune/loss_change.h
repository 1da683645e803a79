// Whether a configuration changes more than the speed of a training.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trials/measurement.h"

namespace jobs {

// The losses of a configuration and of the present one over the n steps that
// all of their rounds have,
//
//   d = mean(other) - mean(present),
//   noise = max(s_steps sqrt(2 / n), s_rounds sqrt(1 / R + 1 / R')),
//
// with the deviation s_steps of the present one's steps around the line of
// their neighbors, and s_rounds of the means of its R rounds; d moved where
// |d| > 3 noise and more than a loss in 16 bits shows, 2^-8 of it. A log may
// print the loss a step later: that must not explain d.
struct LossChange {
  int steps = 0;      // n
  double loss = 0.0;  // mean of the other configuration
  double present = 0.0;
  double noise = 0.0;
  double apart = 0.0;  // |d|, or that of losses a step earlier or later if less

  [[nodiscard]] bool Moved() const;
};

// Nothing where fewer than 4 steps have a loss in both.
[[nodiscard]] std::optional<LossChange> CompareLosses(
    const std::vector<trials::LossCurve>& other,
    const std::vector<trials::LossCurve>& present);

// "changes more than speed: loss 2.31, yours 2.10 (mean of 20 steps, noise
// 0.01)"
[[nodiscard]] std::string ToString(const LossChange& change);

}  // namespace jobs
