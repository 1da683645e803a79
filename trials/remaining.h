// An estimate of how much a search may still gain.

#pragma once

#include "common/fields.h"

namespace trials {

// The estimate for one run after some of its trials. methods/remaining.h has
// the equations.
struct Remaining {
  // Expected gain of the most promising untried candidate, as a share of the
  // incumbent's throughput; >= 0.
  double expected_gain = 0.0;
  int candidate = -1;  // the one with that gain; -1: all were tried
  // Probabilities that the incumbent has at least 99, 97 and 95% of the
  // throughput of the best candidate that fits.
  double p_within_1 = 0.0;
  double p_within_3 = 0.0;
  double p_within_5 = 0.0;
  // That one of the tried candidates has at least 95%, whichever noise makes
  // the incumbent: what another candidate may still change. Not recorded.
  double p_found_5 = 0.0;

  friend bool operator==(const Remaining&, const Remaining&) = default;

  OPPA_FIELDS(Remaining, expected_gain, candidate, p_within_1, p_within_3,
              p_within_5);
};

}  // namespace trials
